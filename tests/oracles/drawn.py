"""Read back what a figure shows."""

from matplotlib.collections import PolyCollection


def texts(fig):
    """Return every piece of text in a figure that is not empty."""
    return [t.get_text() for axes in fig.axes for t in axes.texts if t.get_text()]


def boxes(axes):
    """Return how many boxes an axes shows of each fill colour."""
    found = {}
    for collection in axes.collections:
        if isinstance(collection, PolyCollection) and len(collection.get_facecolor()):
            colour = tuple(collection.get_facecolor()[0].round(2))
            found[colour] = found.get(colour, 0) + len(collection.get_paths())
    return found
