//! Pods that run as real processes: the one container of a Pod, in the root file system of its image.
//!
//! Like a node, this pulls the image, mounts the token of the Pod's ServiceAccount, sets environment and
//! user, runs the readiness probe, restarts a process that ends, and stops it with SIGTERM. It does not limit
//! CPU and memory or apply capabilities and seccomp. The Pod has no network of its own: it listens on a
//! loopback port of this machine instead of its own port.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Container, ContainerPort, EnvVar, Pod, Probe, ServiceAccount},
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use nix::{sys::signal::Signal, unistd::geteuid};
use tokio::time::Instant;

use crate::{
    control_plane::free_port,
    http,
    registry::{ImageConfig, Reader},
    supervisor::{Spec, Supervisor},
};

/// How many lines of the log of a process that ended are shown.
const LOG_TAIL: usize = 20;
const TOKEN_FOLDER: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// Runs the Pods of some namespaces.
pub struct Containers {
    /// The namespaces whose Pods run as real processes.
    pub namespaces: Vec<String>,
    /// Runs the processes.
    pub supervisor: Arc<Supervisor>,
    /// The kubelet's own client.
    pub client: Client,
    /// Where the API server listens: host and port.
    pub api_server: (String, u16),
    /// The authority that signed its certificate, as PEM.
    pub authority: String,
    /// Pulls images.
    pub registry: Reader,
    /// The address on which each Pod listens, by its UID.
    pub addresses: Mutex<BTreeMap<String, String>>,
    /// What went wrong, for error messages.
    pub problems: Mutex<Vec<String>>,
}

/// A container that was started.
pub(super) struct Running {
    spec: Spec,
    /// The address on which it listens.
    address: String,
    /// The path of its readiness probe.
    ready: Option<String>,
    grace: Duration,
}

impl Containers {
    /// Whether Pods of that namespace run as real processes.
    pub(super) fn handles(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|known| known == namespace)
    }

    /// Adds to what went wrong.
    pub(super) fn complain(&self, problem: String) {
        lock(&self.problems).push(problem);
    }

    /// What went wrong so far.
    pub fn problems(&self) -> Vec<String> {
        lock(&self.problems).clone()
    }

    /// The address on which a Pod listens, and its process id.
    pub fn process(&self, pod: &Pod) -> Option<(String, u32)> {
        let address = lock(&self.addresses).get(&pod.uid()?).cloned()?;
        Some((address, self.supervisor.status(&pod.name_any()).ok()?.pid?))
    }

    /// Pulls the image and starts the process.
    pub(super) async fn start(&self, pod: &Pod, address: &str) -> Result<Running> {
        let spec = pod.spec.as_ref().context("a Pod without spec")?;
        let [container] = spec.containers.as_slice() else {
            bail!("only Pods with one container can run here")
        };
        let folder = self.supervisor.folder().join("pods").join(pod.uid().context("a Pod without UID")?);
        let root = folder.join("root");
        fs::create_dir_all(&root)?;
        let reference = container.image.as_deref().context("a container without image")?;
        let image = self
            .registry
            .pull_image(reference, &root)
            .await
            .with_context(|| format!("cannot pull {reference}"))?;
        self.mount_token(pod, &root).await?;
        // Every kubelet writes this file.
        write(&root, "etc/hosts", "127.0.0.1\tlocalhost\n")?;

        let port = free_port()?;
        let user = user_of(pod, container, &image)?;
        let environment = self.environment(pod, container, &image, address)?;
        let command = command_of(container, &image, &environment, port)?;
        let ready =
            container.readiness_probe.as_ref().map(|probe| probe_path(probe, container)).transpose()?;
        let program = Spec {
            name: pod.name_any(),
            program: PathBuf::from("/usr/bin/env"),
            args: in_container(&environment, &root, user, command),
            env: Vec::new(),
        };
        self.supervisor.spawn(program.clone())?;
        let listens = format!("127.0.0.1:{port}");
        lock(&self.addresses).insert(pod.uid().unwrap_or_default(), listens.clone());
        let seconds = spec.termination_grace_period_seconds.unwrap_or(30);
        Ok(Running {
            spec: program,
            address: listens,
            ready,
            grace: Duration::from_secs(seconds.try_into().unwrap_or_default()),
        })
    }

    /// Whether it is Ready now. A process that has ended is started again.
    pub(super) async fn is_ready(&self, running: &Running) -> Result<bool> {
        let status = self.supervisor.status(&running.spec.name)?;
        if !status.running {
            let name = &running.spec.name;
            let said = self.supervisor.log_tail(name, LOG_TAIL);
            self.complain(format!("{name} ended ({status:?}) and is started again; it said:\n{said}"));
            self.supervisor.spawn(running.spec.clone())?;
            return Ok(false);
        }
        let Some(path) = &running.ready else { return Ok(true) };
        Ok(http::get(&running.address, path).await.is_ok_and(|(code, _)| code == 200))
    }

    /// The exit code of a process that is not started again because of the Pod's `restartPolicy`. None if it
    /// still runs.
    pub(super) fn exit_code(&self, running: &Running, pod: &Pod) -> Result<Option<i32>> {
        let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
        if policy != Some("Never") {
            return Ok(None);
        }
        let status = self.supervisor.status(&running.spec.name)?;
        Ok((!status.running).then(|| status.code.unwrap_or(137)))
    }

    /// The log of a Pod of that name.
    pub fn log(&self, pod: &str) -> String {
        self.supervisor.log(pod)
    }

    /// Sends SIGTERM, and SIGKILL when the grace period is over.
    pub(super) async fn stop(&self, running: &Running) -> Result<()> {
        let name = &running.spec.name;
        let deadline = Instant::now() + running.grace;
        if self.supervisor.status(name)?.running {
            self.supervisor.signal(name, Signal::SIGTERM)?;
        }
        while self.supervisor.status(name)?.running {
            if Instant::now() > deadline {
                self.complain(format!("{name} did not end within its grace period"));
                self.supervisor.kill(name).await?;
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Writes the token of the Pod's ServiceAccount, bound to this Pod, with the CA and the namespace.
    async fn mount_token(&self, pod: &Pod, root: &Path) -> Result<()> {
        let namespace = pod.namespace().context("a Pod without namespace")?;
        let spec = pod.spec.as_ref();
        let name = spec.and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &namespace);
        let account = accounts.get(name).await.with_context(|| format!("ServiceAccount {name}"))?;
        let automatic = spec.and_then(|spec| spec.automount_service_account_token);
        if !automatic.or(account.automount_service_account_token).unwrap_or(true) {
            return Ok(());
        }
        let bound = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
        };
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                bound_object_ref: Some(bound),
                expiration_seconds: Some(3607),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let response = accounts.create_token_request(name, &PostParams::default(), &request).await?;
        let token = response.status.and_then(|status| status.token).context("the response has no token")?;
        for (file, content) in [("token", &token), ("ca.crt", &self.authority), ("namespace", &namespace)] {
            write(root, &format!("{TOKEN_FOLDER}/{file}"), content)?;
        }
        Ok(())
    }

    /// The environment variables of the image, the kubelet and the Pod.
    fn environment(
        &self,
        pod: &Pod,
        container: &Container,
        image: &ImageConfig,
        address: &str,
    ) -> Result<BTreeMap<String, String>> {
        let image = image.env().iter().filter_map(|pair| pair.split_once('='));
        let mut all: BTreeMap<String, String> =
            image.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        all.insert("KUBERNETES_SERVICE_HOST".to_owned(), self.api_server.0.clone());
        all.insert("KUBERNETES_SERVICE_PORT".to_owned(), self.api_server.1.to_string());
        for variable in container.env.iter().flatten() {
            let value = value_of(variable, pod, address)?;
            all.insert(variable.name.clone(), expand(&value, &all));
        }
        if let Some(source) = container.env_from.iter().flatten().next() {
            bail!("envFrom is not supported by the test kubelet: {source:?}");
        }
        Ok(all)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The arguments of `env` that run a command in the root file system, as the user.
fn in_container(
    environment: &BTreeMap<String, String>,
    root: &Path,
    user: (u32, u32),
    command: Vec<String>,
) -> Vec<String> {
    let mut args = vec!["-i".to_owned()];
    args.extend(environment.iter().map(|(name, value)| format!("{name}={value}")));
    let root = root.display().to_string();
    let enter = if geteuid().is_root() {
        let user = format!("--userspec={}:{}", user.0, user.1);
        vec![
            "/usr/bin/setpriv".to_owned(),
            "--no-new-privs".to_owned(),
            "/usr/sbin/chroot".to_owned(),
            user,
            root,
        ]
    } else {
        // Without root there is only one user to run as.
        let unshare = ["/usr/bin/unshare", "--user", "--map-root-user", "/usr/sbin/chroot"];
        unshare.map(str::to_owned).into_iter().chain([root]).collect()
    };
    args.extend(enter);
    args.extend(command);
    args
}

fn write(root: &Path, path: &str, content: &str) -> Result<()> {
    let path = root.join(path);
    fs::create_dir_all(path.parent().context("a file in a folder")?)?;
    fs::write(&path, content).with_context(|| path.display().to_string())
}

/// User and group of the container, else of the Pod, else of the image.
fn user_of(pod: &Pod, container: &Container, image: &ImageConfig) -> Result<(u32, u32)> {
    let own = container.security_context.as_ref();
    let pods = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let (image_user, image_group) = image.user().split_once(':').unwrap_or((image.user(), "0"));
    let number = |text: &str| {
        text.parse::<u32>().with_context(|| format!("the image's user {text:?} is not a number"))
    };
    let set = |own: Option<i64>, pods: Option<i64>| own.or(pods).and_then(|id| u32::try_from(id).ok());
    let user = set(own.and_then(|one| one.run_as_user), pods.and_then(|one| one.run_as_user));
    let group = set(own.and_then(|one| one.run_as_group), pods.and_then(|one| one.run_as_group));
    let user = user.map_or_else(|| number(image_user), Ok)?;
    let group = group.map_or_else(|| number(image_group), Ok)?;
    let must_not_be_root =
        own.and_then(|one| one.run_as_non_root).or(pods.and_then(|one| one.run_as_non_root)).unwrap_or(false);
    if must_not_be_root && user == 0 {
        bail!("container has runAsNonRoot and image will run as root");
    }
    Ok((user, group))
}

/// The command line: `command`, else the image's entry point, followed by `args`.
fn command_of(
    container: &Container,
    image: &ImageConfig,
    environment: &BTreeMap<String, String>,
    port: u16,
) -> Result<Vec<String>> {
    let mut words = match &container.command {
        Some(command) => command.clone(),
        None => image.entrypoint().to_vec(),
    };
    words.extend(container.args.iter().flatten().cloned());
    if words.is_empty() {
        bail!("neither the image nor the container has a command");
    }
    let ports = container.ports.iter().flatten().map(|port: &ContainerPort| port.container_port);
    for own in ports {
        for word in &mut words {
            for any in ["0.0.0.0", "[::]"] {
                *word = word.replace(&format!("{any}:{own}"), &format!("127.0.0.1:{port}"));
            }
        }
    }
    Ok(words.into_iter().map(|word| expand(&word, environment)).collect())
}

/// Replaces `$(NAME)` by the value of a known variable.
fn expand(text: &str, environment: &BTreeMap<String, String>) -> String {
    environment.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value))
}

fn value_of(variable: &EnvVar, pod: &Pod, address: &str) -> Result<String> {
    let Some(source) = &variable.value_from else { return Ok(variable.value.clone().unwrap_or_default()) };
    let field = source.field_ref.as_ref().map(|reference| reference.field_path.as_str());
    Ok(match field {
        Some("metadata.name") => pod.name_any(),
        Some("metadata.namespace") => pod.namespace().unwrap_or_default(),
        Some("metadata.uid") => pod.uid().unwrap_or_default(),
        Some("spec.nodeName") => {
            pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()
        }
        Some("status.podIP") => address.to_owned(),
        _ => bail!("{}: the test kubelet does not support this source: {source:?}", variable.name),
    })
}

/// The path of an HTTP probe, whose port must be one of the container's.
fn probe_path(probe: &Probe, container: &Container) -> Result<String> {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    let get = probe.http_get.as_ref().context("the test kubelet supports only HTTP probes")?;
    let is_asked = |port: &ContainerPort| match &get.port {
        IntOrString::Int(number) => port.container_port == *number,
        IntOrString::String(name) => port.name.as_ref() == Some(name),
    };
    if !container.ports.iter().flatten().any(is_asked) {
        bail!("the container does not have the port of the probe: {:?}", get.port);
    }
    Ok(get.path.clone().unwrap_or_else(|| "/".to_owned()))
}
