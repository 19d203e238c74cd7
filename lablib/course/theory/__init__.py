"""The theory: closed forms, estimators and intervals. Numbers in, numbers out.

Theory stands below the engine, which decides by it, and knows nothing of models, texts or arrays.
"""
