"""The models' names as they are written in tables and figures."""

TITLES = {
    "lstm": "LSTM",
    "mingru": "minGRU",
    "transformer-nope": "Transformer, NoPE",
    "transformer-rope": "Transformer, RoPE",
    "transformer-alibi": "Transformer, ALiBi",
    "transformer-fire": "Transformer, FIRE",
    "ntm": "NTM",
    "pntm": "P-NTM",
}
