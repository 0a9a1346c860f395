//! Scripts that once told library and model apart.
