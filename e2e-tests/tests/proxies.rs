//! Through a proxy: the plugin and the check use one exactly where the real kubectl does.

use std::{net::TcpStream, path::PathBuf, process::Stdio, sync::Arc};

use pps_e2e::{
    control_plane::{ADMIN, ControlPlane, Options, free_port},
    plugin,
    programs::Group,
    scratch::Scratch,
    supervisor::{Spec, Supervisor},
    wait::{Progress, wait_for},
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::TIMEOUT;

const HTTP: &str = "tinyproxy";
const SOCKS: &str = "microsocks";
/// An address of this machine that no rule takes for one of this machine.
const ELSEWHERE: &str = "0.0.0.0";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Http,
    Socks,
}

struct World {
    supervisor: Arc<Supervisor>,
    control_plane: ControlPlane,
    http: String,
    socks: String,
}

#[tokio::test]
async fn the_plugin_and_the_check_use_a_proxy_where_kubectl_does() {
    let world = World::start().await;
    let (http, socks) = (
        &format!("http://{}", world.http),
        &format!("socks5://{}", world.socks),
    );
    let (none, here) = ("", "127.0.0.1");
    for (server, named, environment, expected) in [
        (ELSEWHERE, none, vec![("HTTPS_PROXY", http)], Way::Http),
        (
            ELSEWHERE,
            none,
            vec![("https_proxy", &world.http)],
            Way::Http,
        ),
        (ELSEWHERE, none, vec![("HTTPS_PROXY", socks)], Way::Socks),
        (ELSEWHERE, none, vec![("HTTP_PROXY", http)], Way::Direct),
        (
            ELSEWHERE,
            none,
            vec![
                ("HTTPS_PROXY", http),
                ("NO_PROXY", &"10.0.0.0/8, 0.0.0.0".into()),
            ],
            Way::Direct,
        ),
        (
            ELSEWHERE,
            none,
            vec![("HTTPS_PROXY", http), ("no_proxy", &"0.0.0.0/8".into())],
            Way::Direct,
        ),
        // The proxy's own address is no exception.
        (
            ELSEWHERE,
            none,
            vec![("HTTPS_PROXY", http), ("NO_PROXY", &here.into())],
            Way::Http,
        ),
        (here, none, vec![("HTTPS_PROXY", http)], Way::Direct),
        // The kubeconfig knows better.
        (
            here,
            socks,
            vec![("HTTPS_PROXY", http), ("NO_PROXY", &here.into())],
            Way::Socks,
        ),
        (ELSEWHERE, http, vec![("HTTPS_PROXY", socks)], Way::Http),
    ] {
        let kubeconfig = world.kubeconfig(server, named);
        for (program, args, answer) in World::programs() {
            let way = world
                .way_of(&program, args, answer, &kubeconfig, &environment)
                .await;
            let program = program.display();
            assert_eq!(
                way, expected,
                "{program} to {server} with proxy-url {named:?}, {environment:?}"
            );
        }
    }
}

impl World {
    async fn start() -> Self {
        let supervisor = Arc::new(Supervisor::start().unwrap());
        let options = Options {
            controllers: false,
            ..Options::default()
        };
        let control_plane = ControlPlane::start(Arc::clone(&supervisor), options)
            .await
            .unwrap();
        let [http, socks] = [free_port().unwrap(), free_port().unwrap()];
        let settings =
            format!("Port {http}\nListen 127.0.0.1\nAllow 127.0.0.1\nLogLevel Connect\n");
        let file = supervisor.folder().join("tinyproxy.conf");
        std::fs::write(&file, settings).unwrap();
        let file = file.display().to_string();
        let [http, socks] = [http, socks].map(|port| format!("127.0.0.1:{port}"));
        let world = Self {
            supervisor,
            control_plane,
            http,
            socks,
        };
        world.run(HTTP, &["-d", "-c", &file], &world.http).await;
        let (address, port) = world.socks.split_once(':').unwrap();
        world
            .run(SOCKS, &["-i", address, "-p", port], &world.socks)
            .await;
        world
    }

    /// Starts a proxy, and waits until it listens.
    async fn run(&self, name: &str, args: &[&str], address: &str) {
        let program = Group::System.program(name).unwrap();
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        self.supervisor
            .spawn(Spec {
                name: name.into(),
                program,
                args,
                env: Vec::new(),
            })
            .unwrap();
        wait_for(&format!("{name} to listen"), TIMEOUT, async || {
            let connected = TcpStream::connect(address);
            Ok(Progress::when(
                connected.is_ok(),
                (),
                format!("{connected:?}"),
            ))
        })
        .await
        .unwrap();
    }

    fn kubeconfig(&self, server: &str, proxy: &str) -> Scratch {
        let kubeconfig =
            std::fs::read_to_string(self.control_plane.kubeconfig_for(ADMIN).unwrap()).unwrap();
        let mut kubeconfig: Value = serde_json::from_str(&kubeconfig).unwrap();
        let cluster = &mut kubeconfig["clusters"][0]["cluster"];
        cluster["server"] = self.control_plane.url().replace("127.0.0.1", server).into();
        cluster["tls-server-name"] = json!("127.0.0.1");
        cluster["proxy-url"] = proxy.into();
        Scratch::file("proxied", kubeconfig.to_string()).unwrap()
    }

    /// The programs, each with a command and a word of the answer of an API server that was
    /// reached.
    fn programs() -> [(PathBuf, &'static [&'static str], &'static str); 3] {
        let built = plugin::folder().unwrap();
        let check: &[&str] = &["check", "--all", "--skip-registry", "--without-policies"];
        [
            (
                Group::Kubernetes.program("kubectl").unwrap(),
                &["version"],
                "Server Version",
            ),
            (plugin::executable().unwrap(), check, "Kubernetes: v"),
            (built.join("pps-sidecar"), check, "Kubernetes: v"),
        ]
    }

    /// Runs a program, which must reach the API server. Returns the way that it took, as the
    /// proxies logged it.
    async fn way_of(
        &self,
        program: &PathBuf,
        args: &[&str],
        answer: &str,
        kubeconfig: &Scratch,
        environment: &[(&str, &String)],
    ) -> Way {
        let before = self.logged_connections().await;
        let output = Command::new(program)
            .args(args)
            .env_clear()
            .envs(environment.iter().copied())
            .env("KUBECONFIG", kubeconfig.path())
            .env("HOME", self.supervisor.folder())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(TIMEOUT, output)
            .await
            .unwrap()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains(answer),
            "{} {environment:?}: {output:?}",
            program.display()
        );
        let after = self.logged_connections().await;
        match [after[0] > before[0], after[1] > before[1]] {
            [false, false] => Way::Direct,
            [true, false] => Way::Http,
            [false, true] => Way::Socks,
            both => panic!("{}: {both:?}", program.display()),
        }
    }

    /// How many connections both proxies have logged. A proxy may log one later than its client has
    /// ended, so waits until nothing more comes.
    async fn logged_connections(&self) -> [usize; 2] {
        let mut before = [HTTP, SOCKS].map(|name| self.connections(name));
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            let now = [HTTP, SOCKS].map(|name| self.connections(name));
            if now == before {
                return now;
            }
            before = now;
        }
    }

    /// How many connections to the API server a proxy has logged.
    fn connections(&self, proxy: &str) -> usize {
        let port = self.control_plane.url().rsplit_once(':').unwrap().1;
        self.supervisor
            .log(proxy)
            .matches(&format!(":{port}"))
            .count()
    }
}
