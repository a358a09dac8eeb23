# SPDX-License-Identifier: GPL-2.0
"""Configuration of Sphinx; `make doc` and `make lint` run it."""

project = "rkfd"
author = "rkfd contributors"
project_copyright = author
root_doc = "index"
extensions = []
language = "en"
highlight_language = "none"
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px"}
html_copy_source = False
