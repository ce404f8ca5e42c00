"""The settings of Sphinx for the documentation."""

project = "beanstalk-conformance"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "beanstalk-conformance"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["wrap.css"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
nitpicky = True
