//! What the policy does with the objects of files, without a cluster.
//!
//! The files are the cluster: the policy's own `admit` answers for each Pod and each PersistentPodState, and a host answers its
//! lookups from the objects of the files.

mod answers;
mod item;
mod read;
mod world;

use serde_json::Value;

pub use self::answers::{Answers, Attempt, Problem, Refusal};
use self::read::read;
use self::world::World;

/// The text of a file.
#[derive(Clone, Debug)]
pub struct Source {
    /// What it is called in messages.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// Pods that are made from one workload, at most.
pub const MAX_PODS: usize = 250;

/// Lets the policy answer for all objects of the files. `namespace` is that of objects that name none.
pub fn attempt(sources: &[Source], settings: Option<&Source>, namespace: &str) -> Answers {
    let mut answers = Answers::default();
    let settings = read_settings(settings, &mut answers);
    let items = read(sources, namespace, &mut answers);
    // Whatever could not be read may be what the answers depend on.
    if answers.is_unreadable {
        return answers;
    }
    let world = World::new(&items, settings);
    for item in &items {
        world.attempt(item, &mut answers);
    }
    if answers.attempts.is_empty() {
        let message = "nothing was tried: the files need a Pod, a StatefulSet or a PersistentPodState";
        answers.notes.push(message.into());
    }
    answers
}

fn read_settings(source: Option<&Source>, answers: &mut Answers) -> Value {
    let Some(source) = source else { return Value::Null };
    match pps_manifest::read_settings(&source.text) {
        Ok((value, _)) => value,
        Err(fault) => {
            answers.is_unreadable = true;
            answers.problems.extend(fault.flaws().iter().map(|flaw| Problem::error(&source.name, flaw)));
            Value::Null
        }
    }
}

#[cfg(test)]
mod tests;
