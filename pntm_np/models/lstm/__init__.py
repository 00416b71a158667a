"""The LSTM layer: its definition, and its loop compiled."""
