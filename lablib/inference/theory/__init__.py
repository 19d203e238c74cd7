"""What sampling, voting and speculation must come to: closed forms, estimators, curves."""
