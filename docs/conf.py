"""How Sphinx builds the site of the documentation: ``make docs``.

Nothing that a page needs comes from another host: formulas are MathML, fonts are those of the reader.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import vrmf

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))

project = "vrmf"
author = "The vrmf developers"
copyright = author
version = release = vrmf.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "built_pages",
    "code_blocks",
    "gallery_places",
    "mathml",
    "named_parts",
    "plain_docstrings",
    "repository_pages",
]
exclude_patterns = ["_extensions", "_templates", "**/sg_execution_times.rst"]
templates_path = ["_templates"]
nitpicky = True

# Markdown ---------------------------------------------------------------------------------------

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# Formulas ---------------------------------------------------------------------------------------

html_math_renderer = "mathml"

# The reference ----------------------------------------------------------------------------------

autosummary_generate = True
autosummary_context = {
    # Methods of scikit-learn whose docstrings link into its own pages, and inner parts of estimators.
    "left_out": "get_metadata_routing, set_output",
    "left_out_of_estimators": "n_components, stream_, watcher, weights_for",
}
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"
add_module_names = False

# Examples ---------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("vrmf",),
    "within_subsection_order": "FileNameSortKey",
    "matplotlib_animations": False,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "only_warn_on_example_error": False,
    "abort_on_example_error": False,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "capture_repr": (),
}
warnings.filterwarnings("ignore", message="Matplotlib is currently using agg", category=UserWarning)

# Prompts are no part of what is copied --------------------------------------------------------------

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# The look ---------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "vrmf"
html_static_path = ["_static"]
html_css_files = ["vrmf.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "vrmf"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
}
html_sidebars = {"index": []}
