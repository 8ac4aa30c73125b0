//! The runtime of what a test's own runtime must not be able to stop.

use std::ops::Deref;

use anyhow::Result;
use kube::Client;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::control_plane::ControlPlane;

/// A runtime for the kubelet and the webhook: they keep running while a test blocks its own
/// runtime.
pub(super) struct Background(Option<Runtime>);

impl Background {
    pub(super) fn start() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("harness")
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// A client whose connections belong to this runtime.
    pub(super) fn client_for(&self, control_plane: &ControlPlane, user: &str) -> Result<Client> {
        let _context = self.enter();
        control_plane.client_for(user)
    }

    pub(super) fn handle(&self) -> &Handle {
        self.deref().handle()
    }
}

impl Deref for Background {
    type Target = Runtime;

    #[expect(clippy::expect_used, reason = "only `drop` takes it")]
    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("only `drop` takes the runtime")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Dropping the tasks ends a guest that hangs in a host call.
            runtime.shutdown_background();
        }
    }
}
