"""Pictures and widgets: ``plots`` draws data, ``widgets`` lets controls move it."""
