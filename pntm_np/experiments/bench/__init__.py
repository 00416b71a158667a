"""Time the paper's efficiency experiment (``forward``) and the training step of every model (``train_step``)."""
