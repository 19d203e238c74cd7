"""Pictures: ``charts`` draws data, ``strips`` draws tokens, ``explorer`` lets controls move it."""
