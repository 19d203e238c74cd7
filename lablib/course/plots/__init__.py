"""Pictures: ``charts`` says what is drawn, ``scene`` has a page draw it, ``explorer`` moves it."""

from lablib.extras import need

need("plots and widgets", "matplotlib", "ipywidgets")
