//! What is wrong with settings.

use std::error::Error;
use std::fmt;

/// Settings that the policy cannot use. Displays everything that is wrong at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// They are not a JSON object, for this reason.
    NotAnObject(String),
    /// These fields are wrong.
    Fields(Vec<FieldError>),
}

/// A field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field, such as `annotations.allow[0]`.
    pub path: String,
    /// Its value in JSON.
    pub value: String,
    /// What is wrong with it.
    pub cause: Cause,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no such field, but these.
    Unknown([&'static str; 2]),
    /// It must be one of these.
    NotOneOf(&'static str),
    /// It can match no annotation key.
    NotAPattern,
    /// It is in `allow`, but its writer treats it as its own state.
    NeverInjected,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnObject(reason) => {
                write!(
                    f,
                    "the settings must be an object, such as {{\"onLookupFailure\": \"reject\"}}: \
                     {reason}"
                )
            }
            Self::Fields(errors) => {
                for (index, error) in errors.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "; " };
                    write!(f, "{separator}{}", error.message("settings."))?;
                }
                Ok(())
            }
        }
    }
}

impl FieldError {
    /// What is wrong and what to do, with this prefix before the names of fields.
    pub fn message(&self, prefix: &str) -> String {
        let Self { path, value, cause } = self;
        match cause {
            Cause::Unknown([first, second]) => {
                format!(
                    "{prefix}{path} is unknown: use {prefix}{first} or {prefix}{second}, or \
                     remove it"
                )
            }
            Cause::NotOneOf(choices) => {
                format!("{prefix}{path} is {value}: set it to {choices}, or remove it")
            }
            Cause::NotAPattern => format!(
                "{prefix}{path} is {value}: use an annotation key, or a prefix that ends in *, \
                 such as cni.projectcalico.org/*"
            ),
            Cause::NeverInjected => format!(
                "{prefix}{path} is {value}: remove it; it can never be allowed (its writer treats \
                 it as its own state)"
            ),
        }
    }
}

impl Error for SettingsError {}
