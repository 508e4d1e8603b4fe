//! The texts of errors and of their causes.

/// Returns the texts of an error and its causes, in one line.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    causes(error).join(": ")
}

/// Returns the texts of an error and its causes, without causes whose text is part of an earlier one.
pub(crate) fn causes(error: &anyhow::Error) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !texts.join(": ").contains(&cause) {
            texts.push(cause);
        }
    }
    texts
}
