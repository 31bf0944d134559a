//! What fingerprints are: rules and reference, secrets and comments, texts of any length.

mod comments;
mod golden;
mod properties;
mod rules;
mod secrets;
mod summary;
mod truncation;
