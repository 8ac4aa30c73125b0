//! Free loopback ports.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, TcpListener},
    sync::{Mutex, PoisonError},
};

use anyhow::{Result, bail};
use nix::unistd::getpid;

/// Below the range that Linux uses for outgoing connections, so that no connection takes a port
/// after it was found free and before its server binds it.
const FIRST: u16 = 16_000;
const LAST: u16 = 31_999;

/// A free port that this process has not handed out before.
///
/// Another process may still take it. Start a server that cannot bind its port again with another
/// one.
pub fn free_port() -> Result<u16> {
    static NEXT: Mutex<Option<(u16, BTreeSet<u16>)>> = Mutex::new(None);
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    // Each process begins at another port, so that processes that run at the same time rarely
    // collide.
    let span = u32::from(LAST - FIRST) + 1;
    let scattered = getpid().as_raw().unsigned_abs().wrapping_mul(7919) % span;
    let begin = FIRST + u16::try_from(scattered)?;
    let (candidate, used) = next.get_or_insert_with(|| (begin, BTreeSet::new()));
    for _ in 0..span {
        let port = *candidate;
        *candidate = if port == LAST { FIRST } else { port + 1 };
        if !used.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            used.insert(port);
            return Ok(port);
        }
    }
    bail!("no free port on 127.0.0.1 between {FIRST} and {LAST}")
}
