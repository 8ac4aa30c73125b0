//! The waPC protocol: what the host calls, and what it can be asked.
//!
//! Not with `wapc-guest`: its registry of functions, with a hash map and a lock, would add 6 KB to the Wasm module and be
//! built anew in each instance.
#![expect(unsafe_code, reason = "the host reads and writes the module's memory")]

use crate::memory;

#[link(wasm_import_module = "wapc")]
unsafe extern "C" {
    fn __guest_request(operation: *mut u8, payload: *mut u8);
    fn __guest_response(response: *const u8, length: usize);
    fn __guest_error(message: *const u8, length: usize);
    fn __host_call(
        binding: *const u8,
        binding_length: usize,
        namespace: *const u8,
        namespace_length: usize,
        operation: *const u8,
        operation_length: usize,
        payload: *const u8,
        payload_length: usize,
    ) -> i32;
    fn __host_response_len() -> usize;
    fn __host_response(response: *mut u8);
    fn __host_error_len() -> usize;
    fn __host_error(message: *mut u8);
}

/// Answers a call of the host: 1 if it succeeded.
pub(crate) fn answer(
    operation_length: usize,
    payload_length: usize,
    call: fn(&[u8], &[u8]) -> Result<Vec<u8>, String>,
) -> i32 {
    // SAFETY: all that the call before has allocated was local to it.
    unsafe { memory::reset() };
    let mut operation = vec![0; operation_length];
    let mut payload = vec![0; payload_length];
    // SAFETY: the host writes as many bytes as it has announced.
    unsafe { __guest_request(operation.as_mut_ptr(), payload.as_mut_ptr()) };
    match call(&operation, &payload) {
        // SAFETY: the host copies the bytes before it returns.
        Ok(response) => unsafe {
            __guest_response(response.as_ptr(), response.len());
            1
        },
        // SAFETY: as above.
        Err(message) => unsafe {
            __guest_error(message.as_ptr(), message.len());
            0
        },
    }
}

/// Calls the host. The error is the host's text.
pub(crate) fn host_call(
    binding: &str,
    namespace: &str,
    operation: &str,
    payload: &[u8],
) -> Result<Vec<u8>, Vec<u8>> {
    // SAFETY: the host reads as many bytes as it is told, and writes as many as it has announced.
    unsafe {
        let succeeded = __host_call(
            binding.as_ptr(),
            binding.len(),
            namespace.as_ptr(),
            namespace.len(),
            operation.as_ptr(),
            operation.len(),
            payload.as_ptr(),
            payload.len(),
        ) == 1;
        if succeeded {
            let mut response = vec![0; __host_response_len()];
            __host_response(response.as_mut_ptr());
            Ok(response)
        } else {
            let mut message = vec![0; __host_error_len()];
            __host_error(message.as_mut_ptr());
            Err(message)
        }
    }
}
