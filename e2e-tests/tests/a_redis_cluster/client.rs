//! A client of a Redis Cluster that was given the addresses of its members and knows no names.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use pps_e2e::wait::{Progress, wait_for};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::support::TIMEOUT;

const PORT: u16 = 6379;
/// How long a member may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Keys of these names belong to all three shards: their slots are 15495, 3300 and 7365.
const KEYS: [&str; 3] = ["a", "b", "c"];

/// A client that starts again at every call: it keeps none of the addresses that members tell.
pub(crate) struct Client {
    addresses: BTreeSet<String>,
}

impl Client {
    pub(crate) fn new(addresses: &BTreeSet<String>) -> Self {
        Self {
            addresses: addresses.clone(),
        }
    }

    /// Waits until a key of each shard can be written.
    pub(crate) async fn writes(&self) {
        for key in KEYS {
            wait_for(&format!("a client to write {key}"), TIMEOUT, async || {
                self.write(key).await?;
                Ok(Progress::Done(()))
            })
            .await
            .unwrap();
        }
    }

    /// The addresses at which a member answers.
    pub(crate) async fn reachable(&self) -> BTreeSet<String> {
        let asked = self.addresses.iter().map(async |address| {
            let answer = ask(&format!("{address}:{PORT}"), "PING").await;
            answer.is_ok().then(|| address.clone())
        });
        let answers = futures::future::join_all(asked).await;
        answers.into_iter().flatten().collect()
    }

    /// Writes again and again, and returns the longest time without a success. Never ends.
    pub(crate) async fn go_on(&self, longest: &mut Duration) {
        let mut last = Instant::now();
        for key in KEYS.iter().cycle() {
            if self.write(key).await.is_ok() {
                *longest = (*longest).max(last.elapsed());
                last = Instant::now();
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Writes a key through the first address that answers.
    async fn write(&self, key: &str) -> Result<()> {
        let mut problem = None;
        for address in &self.addresses {
            match write_through(address, key).await {
                Ok(()) => return Ok(()),
                Err(error) => problem = Some(error),
            }
        }
        Err(problem.context("no address")?)
    }
}

/// Writes a key through a member, which may name the one that has it.
async fn write_through(address: &str, key: &str) -> Result<()> {
    let mut member = format!("{address}:{PORT}");
    for _ in 0..3 {
        let answer = ask(&member, &format!("SET {key} 1")).await?;
        if answer.starts_with("+OK") {
            return Ok(());
        }
        let mut words = answer.split_whitespace();
        match (words.next(), words.nth(1)) {
            (Some("-MOVED"), Some(other)) => other.clone_into(&mut member),
            _ => bail!("{member}: {answer}"),
        }
    }
    bail!("{key} is sent from one member to another")
}

/// What a member answers to a command.
async fn ask(member: &str, command: &str) -> Result<String> {
    let answer = async {
        let mut stream = TcpStream::connect(member).await?;
        let command = format!("{command}\r\nQUIT\r\n");
        stream.write_all(command.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        ensure!(!answer.is_empty(), "{member} says nothing");
        Ok(answer)
    };
    timeout(PATIENCE, answer)
        .await
        .with_context(|| format!("{member} is silent"))?
}
