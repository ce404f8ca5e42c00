"""Programs: random conversations that are played on a target, judged and shrunk."""
