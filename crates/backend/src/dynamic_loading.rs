//! Whether this program can load shared objects, as kernels and vendors' runtimes are.

use crate::error::BackendError;

/// musl in a static program has no dynamic loader.
const IS_STATIC: bool = cfg!(all(target_env = "musl", target_feature = "crt-static"));

/// Fails in a program that cannot load shared objects.
///
/// # Errors
/// [`BackendError::StaticProgram`] in a program that is statically linked with musl.
pub fn check_dynamic_loading() -> Result<(), BackendError> {
    check(IS_STATIC)
}

fn check(is_static: bool) -> Result<(), BackendError> {
    if is_static { Err(BackendError::StaticProgram) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_program_loads_nothing() {
        let error = check(true).unwrap_err();
        assert!(matches!(error, BackendError::StaticProgram));
        assert!(error.to_string().contains("statically linked"), "{error}");
        assert!(check(false).is_ok());
    }

    #[test]
    fn this_program_says_how_it_is_linked() {
        assert_eq!(check_dynamic_loading().is_err(), cfg!(target_env = "musl"));
    }
}
