"""Programs: conversations that are made up, run on a target, judged, and made small."""
