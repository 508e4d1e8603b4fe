//! Events that say what the crates do, for people who look for the cause of a problem.
//!
//! With the feature `tracing` they reach the subscriber that the process has set through the crate of that name; the
//! event's target is the module. Without it, [`debug!`] and [`trace!`] compile to nothing: their values are checked by the
//! compiler and not computed.
//!
//! An event has a constant text and named values, which are recorded as text by [`Display`](std::fmt::Display). The
//! password in an address is masked before. Programs are recorded with their arguments, which should have no secret.
//!
//! ```
//! let (key, bytes) = ("3a7c", 512);
//! opkeep_trace::debug!("entry published", key = key, bytes = bytes);
//! ```

#[cfg(feature = "tracing")]
#[doc(hidden)]
pub use tracing as __tracing;

/// Records a step that a user may want to know: a compile, a call to a server, a wait, an eviction.
#[macro_export]
macro_rules! debug {
    ($text:literal $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::__event!(DEBUG, $text $(, $name = $value)*)
    };
}

/// Records a step that happens for each kernel of a build, also of one that builds nothing.
#[macro_export]
macro_rules! trace {
    ($text:literal $(, $name:ident = $value:expr)* $(,)?) => {
        $crate::__event!(TRACE, $text $(, $name = $value)*)
    };
}

#[cfg(feature = "tracing")]
#[doc(hidden)]
#[macro_export]
macro_rules! __event {
    ($level:ident, $text:literal $(, $name:ident = $value:expr)*) => {
        $crate::__tracing::event!(
            $crate::__tracing::Level::$level,
            $($name = $crate::__tracing::field::display(&$value),)*
            $text
        )
    };
}

#[cfg(not(feature = "tracing"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __event {
    ($level:ident, $text:literal $(, $name:ident = $value:expr)*) => {
        if false {
            $(let _: &dyn ::std::fmt::Display = &$value;)*
        }
    };
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    /// Without the feature nothing is computed. With it, nothing is computed for an event that no subscriber takes.
    #[test]
    fn values_are_computed_for_a_subscriber_only() {
        let computed = Cell::new(0);
        let value = || {
            computed.set(computed.get() + 1);
            7
        };
        crate::debug!("a step", number = value());
        crate::trace!("a step", number = value());
        assert_eq!(computed.get(), 0);
    }
}
