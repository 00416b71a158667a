"""The LSTM layer: its definition and its compiled loop."""
