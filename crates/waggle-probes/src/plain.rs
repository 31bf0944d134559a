//! Types of the shared headers as the bytes that they are.
//!
//! Neighbours: probes hand configurations to the kernel half, and read records in place.
//!
//! Invariant: of a type that is plain, any bytes are a value, and a value has no byte unset.

/// A type of integers alone.
///
/// # Safety
/// It has no padding, and any bit pattern is a value of it.
pub(crate) unsafe trait Plain: Copy {}

/// What the kernel half reads of a value.
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: a plain type has no padding, and the value is borrowed as long as the bytes.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// The value at the start of a record; `None` if that is too short, or not aligned for it.
pub(crate) fn value_in<T: Plain>(record: &[u8]) -> Option<&T> {
    let pointer = record.get(..size_of::<T>())?.as_ptr().cast::<T>();
    if !pointer.is_aligned() {
        return None;
    }
    // SAFETY: long enough and aligned (checked), and any bytes are a value of a plain type.
    Some(unsafe { &*pointer })
}
