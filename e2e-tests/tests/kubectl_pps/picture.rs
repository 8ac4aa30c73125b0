//! The README's picture of a terminal: a Pod is Pending, and the plugin says why and lets it go.
//!
//! The session is played whenever the tests run, and has to be the one in the picture. `UPDATE=1`
//! draws it again.

use std::{env, fmt::Write, fs};

use anstyle::RgbColor;
use anstyle_svg::{Palette, Term};
use anyhow::{Context, Result, ensure};
use pps_e2e::{
    cluster::{Cluster, StatefulSetSpec, nodes::NodeSpec},
    control_plane::ADMIN,
    plugin::Plugin,
    programs::Group,
    repository::repository_file,
};

use super::answers::make_pending;
use crate::support::{Pool, ZONE, required};

const PICTURE: &str = "docs/images/kubectl-pps.svg";
/// The width of the text, in pixels: a picture as wide as 80 columns is not scaled in the README.
const WIDTH: usize = 672;
/// What the last line has below it, as the first one has above it.
const MARGIN: usize = 10;
/// Where the picture ends the answer of `explain`. When the Pod was created comes after it.
const CUT: &str = "What is known";
/// Shown only if the Pod is not created again at once.
const WAITING: &str = "waiting until Pod ";
const ZONES: [&str; 4] = ["zone-a", "zone-b", "zone-b", "zone-b"];

pub(super) async fn the_readme_has_a_picture_of_the_plugin(cluster: &Cluster) {
    play(cluster).await.unwrap();
    cluster
        .delete_stateful_set("default", "db", false)
        .await
        .unwrap();
}

async fn play(cluster: &Cluster) -> Result<()> {
    let plugin = Plugin::new(cluster.control_plane.kubeconfig_for(ADMIN)?)
        .run_by(Group::Kubernetes.program("kubectl")?);
    let pool = Pool {
        cluster,
        namespace: "default",
    };
    make_pending_pod(&pool).await?;

    let mut screen = Screen::default();
    let explained = plugin.run_on_terminal(&["explain", "db-0"], 80, "").await?;
    ensure!(explained.exit_code == 1, "{explained:?}");
    let (shown, _) = explained
        .stdout
        .split_once(CUT)
        .with_context(|| format!("no {CUT}: {explained:?}"))?;
    screen.show("explain db-0", &format!("{}…\n", up_to_last_line(shown)));

    let moved = plugin
        .run_while(&["move", "db-0", "--anywhere", "--any", "zone"], async {})
        .await?;
    ensure!(moved.exit_code == 0, "{moved:?}");
    // The terminal of the test does not show what is typed.
    screen.show(
        "move db-0 --anywhere --any zone",
        &moved.stdout.replace("[y/N] ", "[y/N] y\n"),
    );

    let pods = pool.ready("db", 3).await;
    ensure!(pods["db-0"].node.as_deref() == Some("node-3"), "{pods:?}");
    pool.recorded("db", "db").await;
    let status = plugin.run_on_terminal(&["status"], 80, "").await?;
    ensure!(status.exit_code == 0, "{status:?}");
    screen.show("status", &status.stdout);

    let drawn = screen.draw();
    for line in text_of(&drawn) {
        ensure!(
            line.chars().count() <= 80,
            "the terminal would break this line anywhere: {line}"
        );
    }
    let file = repository_file(PICTURE);
    if env::var("UPDATE").is_ok_and(|value| value == "1") {
        fs::write(&file, &drawn).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    ensure!(
        text_of(&kept) == text_of(&drawn),
        "the plugin does not print what {PICTURE} shows: `make terminal-picture` draws it again. \
         It prints\n{}",
        text_of(&drawn).join("\n")
    );
    let page = fs::read_to_string(repository_file("docs/kubectl-pps.md"))?;
    let shown = PICTURE.replace("docs/", "");
    ensure!(
        page.contains(&format!("({shown})")),
        "docs/kubectl-pps.md does not show {PICTURE}"
    );
    Ok(())
}

/// Each Pod of `db` is on a node of its own. The first one waits for its zone, whose only node is
/// cordoned. Of the others the scheduler chooses the last one, which is empty.
async fn make_pending_pod(pool: &Pool<'_>) -> Result<()> {
    let cluster = pool.cluster;
    pool.object("db", &required("db", &[ZONE])).await;
    for (index, zone) in ZONES.into_iter().enumerate() {
        let node = format!("node-{index}");
        cluster
            .nodes
            .create(NodeSpec::new(&node).zone(zone))
            .await?;
        match index {
            0 => drop(
                cluster
                    .run_stateful_set(&StatefulSetSpec::new("default", "db", 1))
                    .await?,
            ),
            1 | 2 => pool.scale("db", u32::try_from(index)? + 1).await,
            _ => break,
        }
        let pods = pool.ready("db", index + 1).await;
        let pod = &pods[&format!("db-{index}")];
        ensure!(
            pod.node.as_ref() == Some(&node),
            "the scheduler did not choose the empty node: {pod:?}"
        );
        pool.load(&node).await;
    }
    pool.recorded("db", "db").await;
    cluster.nodes.cordon("node-0").await?;
    make_pending(pool, "db", "db-0").await;
    Ok(())
}

/// What stands on the terminal.
#[derive(Default)]
struct Screen(String);

impl Screen {
    /// A command, and what it prints.
    fn show(&mut self, command: &str, output: &str) {
        let prompt = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(
            self.0,
            "{prompt}\u{1b}[36m$\u{1b}[0m \u{1b}[1mkubectl pps {command}\u{1b}[0m"
        );
        for line in output.lines().filter(|line| !line.starts_with(WAITING)) {
            self.0.push_str(line);
            self.0.push('\n');
        }
    }

    /// A terminal with a background of its own, which is readable on a light and on a dark page.
    fn draw(&self) -> String {
        let colour = |rgb: u32| {
            let [_, red, green, blue] = rgb.to_be_bytes();
            RgbColor(red, green, blue)
        };
        let palette = [
            0x48_4f58, 0xff_7b72, 0x56_d364, 0xe3_b341, 0x79_c0ff, 0xd2_a8ff, 0x56_d4dd, 0xc9_d1d9,
            0x6e_7681, 0xff_a198, 0x7e_e787, 0xf2_cc60, 0xa5_d6ff, 0xe2_c5ff, 0xb3_f0ff, 0xff_ffff,
        ];
        let term = Term::new()
            .palette(Palette(palette.map(colour)))
            .fg_color(colour(0xc9_d1d9).into())
            .bg_color(colour(0x16_1b22).into())
            .min_width_px(WIDTH);
        let svg = term.render_svg(self.0.trim_end());
        let [width, height] = ["width", "height"].map(|name| pixels(&svg, name));
        let below = height + MARGIN;
        // Without a box, a browser cuts the picture where the page is narrower.
        let size =
            format!("viewBox=\"0 0 {width} {below}\" width=\"{width}px\" height=\"{below}px\"");
        let svg = svg.replacen(
            &format!("width=\"{width}px\" height=\"{height}px\""),
            &size,
            1,
        );
        let svg = svg.replace("opacity: 0.4", "opacity: 0.65");
        svg.lines()
            .flat_map(|line| [line.trim_end(), "\n"])
            .collect()
    }
}

/// The lines, without the beginning of one after them.
fn up_to_last_line(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

/// A picture's width or height.
fn pixels(svg: &str, name: &str) -> usize {
    let value = svg
        .split_once(&format!(" {name}=\""))
        .and_then(|(_, rest)| rest.split_once("px\""));
    value
        .and_then(|(pixels, _)| pixels.parse().ok())
        .expect("a size in pixels")
}

/// The text that a picture shows, without colours.
fn text_of(svg: &str) -> Vec<String> {
    let lines = svg.lines().filter(|line| line.contains("<tspan x="));
    lines
        .map(|line| {
            let plain: String = line
                .split('<')
                .map(|part| part.split_once('>').map_or(part, |(_, text)| text))
                .collect();
            plain
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&amp;", "&")
                .trim()
                .to_owned()
        })
        .collect()
}
