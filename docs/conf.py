"""Configuration of Sphinx for the documentation site (`make docs`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pgmo.version import __version__

project = "pgmo"
author = "The pgmo authors"
release = __version__
html_title = f"pgmo {__version__}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "extensions.docstrings",
    "extensions.command_line",
    "extensions.repository_links",
]
root_doc = "index"
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["pgmo.css"]
html_show_copyright = False
html_copy_source = False

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

# Docstrings are plain text with single backticks around code.
default_role = "code"
smartquotes = False  # they would turn --option into a dash
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Source"]
