//! Why nothing was run, and on which stream a script that wraps sysbench expects to read it.

/// A refusal; the exit code is 1, as with sysbench.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A mistake on the command line: standard error.
    Usage(String),
    /// A value or a script that cannot be used: `FATAL: ...` on standard output.
    Fatal(String),
    /// Standard output without a prefix.
    Plain(String),
}

impl Refusal {
    pub(super) fn usage(text: impl Into<String>) -> Refusal {
        Refusal::Usage(text.into())
    }

    pub(super) fn fatal(text: impl Into<String>) -> Refusal {
        Refusal::Fatal(text.into())
    }
}
