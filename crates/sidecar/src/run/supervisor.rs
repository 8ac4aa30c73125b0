//! The tasks in the background. None of them ends by itself: one that does, or that panics, ends the program, so that
//! what it did is not missing unnoticed.

use std::collections::HashMap;

use tokio::task::{AbortHandle, Id, JoinSet};

#[derive(Debug, Default)]
pub(super) struct Supervisor {
    tasks: JoinSet<()>,
    names: HashMap<Id, String>,
}

impl Supervisor {
    /// Starts a task. It may be aborted.
    pub(super) fn spawn(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        let handle = self.tasks.spawn(task);
        self.names.insert(handle.id(), name.into());
        handle
    }

    /// Waits until a task ends that was not aborted, and says which and how.
    pub(super) async fn first_failure(&mut self) -> anyhow::Error {
        loop {
            let Some(result) = self.tasks.join_next_with_id().await else {
                return std::future::pending().await;
            };
            let (id, error) = match result {
                Ok((id, ())) => (id, None),
                Err(error) => (error.id(), Some(error)),
            };
            let name = self.names.remove(&id).unwrap_or_default();
            match error {
                Some(error) if error.is_cancelled() => {}
                Some(_) => return anyhow::anyhow!("the task {name} has panicked"),
                None => return anyhow::anyhow!("the task {name} has ended"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_or_ends_is_a_failure_and_an_aborted_one_is_not() {
        let mut supervisor = Supervisor::default();
        supervisor.spawn("lasting", std::future::pending());
        supervisor.spawn("stopped", std::future::pending()).abort();
        let none = timeout(Duration::from_millis(50), supervisor.first_failure()).await;
        assert!(none.is_err(), "{none:?}");

        supervisor.spawn("watch of pods", async {
            sleep(Duration::from_millis(1)).await;
            panic!("out of bounds");
        });
        assert_eq!(supervisor.first_failure().await.to_string(), "the task watch of pods has panicked");
        supervisor.spawn("admin server", async {});
        assert_eq!(supervisor.first_failure().await.to_string(), "the task admin server has ended");
    }

    #[tokio::test]
    async fn nothing_fails_without_tasks() {
        let none = timeout(Duration::from_millis(50), Supervisor::default().first_failure()).await;
        assert!(none.is_err(), "{none:?}");
    }
}
