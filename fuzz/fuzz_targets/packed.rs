#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pps_invariants::packed::check(data));
