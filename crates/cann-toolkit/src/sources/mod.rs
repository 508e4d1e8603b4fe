//! The sources of operators: Python modules with everything that they import of the operators' packages, and Ascend C.
//!
//! Imports are read here and not by the toolkit's own Python (`ast`), which was tried. Both find the same imports in 2 400
//! of the 2 427 files of Python 3.10; in the others one of them takes a whole package, as the code here does for a name that
//! is not ASCII, which `ast` normalises. So neither misses an import. But
//! `ast` refuses sources of another Python version, and needs 50 ms of processor time for the 104 sources of a small
//! toolkit, of which a warm build has 12 to 30 in all; the code here needs 2 ms.

pub(crate) mod ascendc;
pub(crate) mod externals;
pub(crate) mod import_closure;
pub(crate) mod imports;
pub(crate) mod op_sources;
pub(crate) mod python;
pub(crate) mod scans;
