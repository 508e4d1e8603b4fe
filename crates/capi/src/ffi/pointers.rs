//! Pointers from C, checked as far as they can be.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::fmt;
use std::fmt::Display;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{ptr, slice};

use opkeep_embed::MAX_TEXT_BYTES;
use opkeep_text::counted;

use crate::error::Error;

/// The largest `size` that is taken for the size of a struct of a later version, and not for memory that was not set.
const MAX_STRUCT: usize = 4096;

/// A struct that later versions extend at its end. Its first field is its size in the version of the caller; the fields
/// after that are taken as zero.
///
/// # Safety
/// The type is `repr(C)`, its first field is a `usize`, all its values may have any bits, and zero is the default of each.
pub(super) unsafe trait Growing: Copy {
    /// The size in the first version of the interface, by [`first_size`](crate::ffi::pointers::first_size).
    const FIRST_SIZE: usize;
}

/// The size of a struct in the first version of the interface: `first_size!(Struct: FIELDS; FIELDS)`, with the fields of the first
/// version, then those that each later one added.
///
/// It does not compile unless all fields are listed, and unless those of each version begin behind the end of the struct before it. A
/// field in the padding there would leave the size as it was, and with it a caller without a sign that an earlier library did not set it.
macro_rules! first_size {
    ($type:ident: $($first:ident),+ $(; $added:ident $(, $more:ident)*)*) => {{
        const fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
            size_of::<F>()
        }
        const fn larger(one: usize, other: usize) -> usize {
            if one > other { one } else { other }
        }
        macro_rules! end {
            ($field:ident) => {
                ::std::mem::offset_of!($type, $field) + size_of_field(|value: &$type| &value.$field)
            };
        }
        let _all_fields = |value: $type| {
            let $type { $($first: _,)+ $($added: _, $($more: _,)*)* } = value;
        };
        let mut size = 0;
        $(size = larger(size, end!($first));)+
        let first = size.next_multiple_of(align_of::<$type>());
        let size = first;
        $(
            assert!(::std::mem::offset_of!($type, $added) >= size, "a new field is in the padding of the struct before it");
            let size = end!($added);
            $(let size = larger(size, end!($more));)*
            let size = size.next_multiple_of(align_of::<$type>());
        )*
        assert!(size == size_of::<$type>());
        first
    }};
}
pub(super) use first_size;

/// The name of a field of an item of an array, for messages.
pub(super) struct ItemField {
    pub(super) array: &'static str,
    pub(super) index: usize,
    pub(super) field: &'static str,
}

impl Display for ItemField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { array, index, field } = self;
        write!(f, "{array}[{index}].{field}")
    }
}

/// Reads a struct that may be of an earlier or later version.
///
/// # Safety
/// `pointer` is null, or points to as many bytes as the `usize` there states, and to that number.
pub(super) unsafe fn growing<T: Growing>(pointer: *const T, what: impl Display) -> Result<T, Error> {
    // SAFETY: as this function's.
    let size = unsafe { size_of_growing(pointer, &what) }?;
    let known = size.min(size_of::<T>());
    let bytes = pointer.cast::<u8>();
    // SAFETY: `size` bytes can be read.
    let later = unsafe { slice::from_raw_parts(bytes.add(known), size - known) };
    if later.iter().any(|byte| *byte != 0) {
        return Err(Error::argument(format!(
            "`{what}` sets fields that this version of the library does not have"
        )));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: `known` bytes can be read, and are at most the size of the value, which is on the stack of this function.
    unsafe { ptr::copy_nonoverlapping(bytes, value.as_mut_ptr().cast::<u8>(), known) };
    // SAFETY: all bytes are set, and any bits are a value.
    Ok(unsafe { value.assume_init() })
}

/// Writes a struct to a caller whose version may be earlier or later. Fields of a later version are set to zero.
///
/// # Safety
/// As [`growing`]; the bytes may be written.
pub(super) unsafe fn write_growing<T: Growing>(
    pointer: *mut T,
    value: T,
    what: impl Display,
) -> Result<(), Error> {
    // SAFETY: as this function's.
    let size = unsafe { size_of_growing(pointer, &what) }?;
    let (first, known) = (size_of::<usize>(), size.min(size_of::<T>()));
    // SAFETY: as many bytes as both have; they do not overlap, and the first field, which the caller set, is left out. The
    // rest of the caller's `size` bytes is set to zero.
    unsafe {
        let (from, to) = (ptr::from_ref(&value).cast::<u8>(), pointer.cast::<u8>());
        ptr::copy_nonoverlapping(from.add(first), to.add(first), known - first);
        ptr::write_bytes(to.add(known), 0, size - known);
    }
    Ok(())
}

/// # Safety
/// `pointer` is null or points to a `usize`, aligned or not.
unsafe fn size_of_growing<T: Growing>(pointer: *const T, what: impl Display) -> Result<usize, Error> {
    if pointer.is_null() {
        return Err(null(&what));
    }
    // SAFETY: the pointer is not null.
    let size = unsafe { pointer.cast::<usize>().read_unaligned() };
    if (T::FIRST_SIZE..=MAX_STRUCT).contains(&size) {
        return Ok(size);
    }
    let (first, own) = (T::FIRST_SIZE, size_of::<T>());
    Err(Error::argument(format!(
        "`{what}->size` is {size}, expected {own}, or another version's, of {first} to {MAX_STRUCT}"
    )))
}

/// Reads a required text.
///
/// # Safety
/// `pointer` is null or points to a text that ends with a byte 0, and that exists during `'a`.
pub(super) unsafe fn text<'a>(pointer: *const c_char, what: impl Display) -> Result<&'a str, Error> {
    // SAFETY: as this function's.
    unsafe { optional_text(pointer, &what) }?.ok_or_else(|| null(&what))
}

/// Reads a text that may be missing.
///
/// # Safety
/// As [`text`].
pub(super) unsafe fn optional_text<'a>(
    pointer: *const c_char,
    what: impl Display,
) -> Result<Option<&'a str>, Error> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the pointer is not null.
    let text = unsafe { CStr::from_ptr(pointer) };
    let text = text.to_str().map_err(|_| Error::argument(format!("`{what}` is not UTF-8: {text:?}")))?;
    Ok(Some(text))
}

/// Reads a text that is stored for reports, and that may be missing.
///
/// # Safety
/// As [`text`].
pub(super) unsafe fn report_text<'a>(
    pointer: *const c_char,
    what: impl Display,
) -> Result<Option<&'a str>, Error> {
    // SAFETY: as this function's.
    let text = unsafe { optional_text(pointer, &what) }?;
    match text.map_or(0, str::len) {
        0..=MAX_TEXT_BYTES => Ok(text),
        length => Err(Error::argument(format!(
            "`{what}` has {length}, more than {MAX_TEXT_BYTES}",
            length = counted(length, "byte")
        ))),
    }
}

/// Reads a required path, of any bytes.
///
/// # Safety
/// As [`text`].
pub(super) unsafe fn path<'a>(pointer: *const c_char, what: impl Display) -> Result<&'a Path, Error> {
    // SAFETY: as this function's.
    unsafe { optional_path(pointer, &what) }?.ok_or_else(|| null(&what))
}

/// Reads a path that may be missing, of any bytes.
///
/// # Safety
/// As [`text`].
pub(super) unsafe fn optional_path<'a>(
    pointer: *const c_char,
    what: impl Display,
) -> Result<Option<&'a Path>, Error> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the pointer is not null.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    match bytes {
        [] => Err(Error::argument(format!("`{what}` is empty"))),
        _ => Ok(Some(Path::new(OsStr::from_bytes(bytes)))),
    }
}

/// Reads bytes.
///
/// # Safety
/// `pointer` is null or points to `size` bytes that exist during `'a` and are not changed.
pub(super) unsafe fn bytes<'a>(
    pointer: *const c_void,
    size: usize,
    what: impl Display,
) -> Result<&'a [u8], Error> {
    // SAFETY: as this function's.
    unsafe { array(pointer.cast::<u8>(), size, what) }
}

/// Reads an array.
///
/// # Safety
/// `pointer` is null or points to `count` values that exist during `'a` and are not changed. Any bits are a value of `T`.
pub(super) unsafe fn array<'a, T: Copy>(
    pointer: *const T,
    count: usize,
    what: impl Display,
) -> Result<&'a [T], Error> {
    if count == 0 {
        return Ok(&[]);
    }
    check_array(pointer, count, what)?;
    // SAFETY: the pointer is aligned, not null, and points to `count` values, whose size fits.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// A place for a result.
pub(super) struct Output<'a, T>(&'a mut MaybeUninit<T>);

impl<T: Copy> Output<'_, T> {
    pub(super) fn set(&mut self, value: T) {
        self.0.write(value);
    }
}

/// Checks a place for a result, and sets it to `initial`, which it keeps if the call fails.
///
/// # Safety
/// `pointer` is null, or may be written during `'a`.
pub(super) unsafe fn output<'a, T: Copy>(
    pointer: *mut T,
    initial: T,
    what: impl Display,
) -> Result<Output<'a, T>, Error> {
    // SAFETY: as this function's.
    unsafe { optional_output(pointer, initial, &what) }?.ok_or_else(|| null(&what))
}

/// Checks a place for a result that the caller may not want.
///
/// # Safety
/// As [`output`].
pub(super) unsafe fn optional_output<'a, T: Copy>(
    pointer: *mut T,
    initial: T,
    what: impl Display,
) -> Result<Option<Output<'a, T>>, Error> {
    if !pointer.is_aligned() {
        return Err(Error::argument(format!("`{what}` is not aligned")));
    }
    // SAFETY: the pointer is aligned; if it is not null, the place may be written, and a place that was never written is a
    // `MaybeUninit`.
    let place = unsafe { pointer.cast::<MaybeUninit<T>>().as_mut() };
    Ok(place.map(|place| {
        place.write(initial);
        Output(place)
    }))
}

/// The places for the results of a call for several items.
pub(super) struct OutputArray<'a, T>(&'a mut [MaybeUninit<T>]);

impl<T: Copy> OutputArray<'_, T> {
    /// Sets the result of the item `index`, which exists.
    pub(super) fn set(&mut self, index: usize, value: T) {
        if let Some(place) = self.0.get_mut(index) {
            place.write(value);
        }
    }
}

/// Checks places for results, and sets each to `initial`, which it keeps if the call fails.
///
/// # Safety
/// `pointer` is null or points to `count` places that may be written during `'a`.
pub(super) unsafe fn output_array<'a, T: Copy>(
    pointer: *mut T,
    count: usize,
    initial: T,
    what: impl Display,
) -> Result<OutputArray<'a, T>, Error> {
    if count == 0 {
        return Ok(OutputArray(&mut []));
    }
    check_array(pointer, count, what)?;
    // SAFETY: the pointer is aligned, not null, and points to `count` places, whose size fits; a place that was never written is a
    // `MaybeUninit`.
    let places = unsafe { slice::from_raw_parts_mut(pointer.cast::<MaybeUninit<T>>(), count) };
    places.iter_mut().for_each(|place| {
        place.write(initial);
    });
    Ok(OutputArray(places))
}

/// Checks that an array may be at a pointer.
fn check_array<T>(pointer: *const T, count: usize, what: impl Display) -> Result<(), Error> {
    if pointer.is_null() {
        return Err(null(&what));
    }
    let is_possible = count.checked_mul(size_of::<T>()).is_some_and(|size| isize::try_from(size).is_ok());
    if !is_possible || !pointer.is_aligned() {
        return Err(Error::argument(format!("`{what}` is not aligned, or {count} is not its count")));
    }
    Ok(())
}

pub(super) fn null(what: impl Display) -> Error {
    Error::argument(format!("`{what}` is a null pointer"))
}
