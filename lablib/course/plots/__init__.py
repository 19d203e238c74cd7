"""Pictures: ``charts`` draws data, ``strips`` draws tokens, ``explorer`` lets controls move it."""

from lablib.extras import need

need("plots and widgets", "matplotlib", "ipywidgets")
