//! Elements that are known when a graph is created.

use std::fmt;
use std::io;
use std::sync::Arc;

use opkeep_text::counted;

/// The elements of a constant tensor. They are read or expanded only on demand.
#[derive(Clone, Debug)]
pub enum Constant {
    /// Every element equals this one, given as its bytes in memory.
    Fill(Vec<u8>),
    /// Each element has its own value.
    Elements(Arc<dyn Elements>),
}

/// A source of elements.
pub trait Elements: fmt::Debug + Send + Sync {
    /// Writes all elements, dense, row-major, little-endian; `out` has exactly their size.
    ///
    /// # Errors
    /// They cannot be read, or their size is not that of `out`.
    fn copy_to(&self, out: &mut [u8]) -> io::Result<()>;
}

impl Constant {
    /// Elements that are in memory.
    pub fn of_bytes(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self::Elements(Arc::new(InMemory(bytes.into())))
    }

    /// Writes all elements; `out` has exactly their size.
    ///
    /// # Errors
    /// They cannot be read, or their size is not that of `out`.
    pub fn copy_to(&self, out: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Fill(element) if element.is_empty() || !out.len().is_multiple_of(element.len()) => {
                let problem =
                    format!("elements of {} do not fill {}", counted(element.len(), "byte"), out.len());
                Err(io::Error::new(io::ErrorKind::InvalidData, problem))
            }
            Self::Fill(element) => {
                out.chunks_exact_mut(element.len()).for_each(|slot| slot.copy_from_slice(element));
                Ok(())
            }
            Self::Elements(elements) => elements.copy_to(out),
        }
    }
}

/// Constants are equal if they have the same fill or share one source.
impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fill(a), Self::Fill(b)) => a == b,
            (Self::Elements(a), Self::Elements(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

struct InMemory(Arc<[u8]>);

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&counted(self.0.len(), "byte"))
    }
}

impl Elements for InMemory {
    fn copy_to(&self, out: &mut [u8]) -> io::Result<()> {
        if self.0.len() != out.len() {
            let problem = format!("{} of elements, expected {}", counted(self.0.len(), "byte"), out.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        out.copy_from_slice(&self.0);
        Ok(())
    }
}
