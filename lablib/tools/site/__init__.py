"""The lab as a static site: ``python -m lablib site OUT``.

Sphinx makes the pages, with MyST-NB to read the notebooks and Furo for the look; they come with
``pip install "lablib[site]"``. Ours is what they can't do: sliders that move without a kernel
(``film``, ``static/site.js``), and lessons whose answers are folded (``pages``).
"""
