//! The site of this repository: built as `make site` builds it, with a stand-in for the
//! playground's files.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pps_site::{Older, Options, Report, build};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// A folder that is removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("pps-site-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.path(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options(source: &Path, scratch: &Scratch) -> Options {
    scratch.write(
        "playground/index.html",
        "<!doctype html><title>Playground</title>",
    );
    Options {
        source: source.to_owned(),
        output: scratch.path("site"),
        playground: Some(scratch.path("playground")),
        repository: "https://git.example/r".to_owned(),
        revision: "v1".to_owned(),
        version_name: "main".to_owned(),
        older: Vec::new(),
    }
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(
                files(&path)
                    .into_iter()
                    .map(|(file, bytes)| (Path::new(path.file_name().unwrap()).join(file), bytes)),
            );
        } else {
            found.insert(path.file_name().unwrap().into(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn the_site_has_all_documents_search_and_the_playground() {
    let scratch = Scratch::new();
    let Report { pages, examples } = build(&options(&repository(), &scratch)).unwrap();
    assert!(
        pages >= 27 && examples >= 7,
        "{pages} pages, {examples} examples"
    );
    let site = files(&scratch.path("site"));
    let text = |name: &str| String::from_utf8_lossy(&site[Path::new(name)]).into_owned();

    let start = text("index.html");
    assert!(
        start.contains("<h1 id=\"persistentpodstate-for-kubewarden\">"),
        "{start}"
    );
    assert!(start.contains("href=\"docs/usage.html#annotate-a-workload\""));
    assert!(start.contains("href=\"playground/index.html\">Playground</a>"));
    assert!(start.contains("Content-Security-Policy"));
    assert!(start.contains("title=\"Version\">main</span>"));
    assert!(
        text("docs/usage.html")
            .contains("class=\"open-in-playground\" href=\"../playground/index.html#")
    );
    assert!(start.contains("href=\"https://git.example/r/blob/v1/LICENSE\""));
    assert!(site.contains_key(Path::new("docs/images/dashboard.png")));
    let index = site
        .keys()
        .find(|file| file.to_string_lossy().starts_with("searchindex"))
        .unwrap();
    assert!(text(index.to_str().unwrap()).contains("docs/usage.html#required-topologies"));
    assert!(!scratch.path("site.staging").exists());
}

#[test]
fn the_same_documents_give_the_same_bytes() {
    let (one, two) = (Scratch::new(), Scratch::new());
    build(&options(&repository(), &one)).unwrap();
    // The second time over an older site. Nothing of it may stay.
    two.write("site/.nojekyll", "");
    two.write("site/old.html", "<a href=\"gone.html\">");
    build(&options(&repository(), &two)).unwrap();
    let (one, two) = (files(&one.path("site")), files(&two.path("site")));
    assert_eq!(
        one.keys().collect::<Vec<_>>(),
        two.keys().collect::<Vec<_>>()
    );
    for (name, bytes) in &one {
        assert!(*bytes == two[name], "{} differs", name.display());
    }
}

#[test]
fn older_versions_stay_on_the_site_and_every_page_says_its_version() {
    let (scratch, older) = (Scratch::new(), Scratch::new());
    older.write(
        "docs/SUMMARY.md",
        "# Start\n\n- [A](../README.md)\n- [B](b.md)\n",
    );
    older.write("README.md", "# A\n\n[b](docs/b.md) [c](LICENSE)\n");
    older.write("docs/b.md", "# B\n\n[a](../README.md)\n");
    older.write("LICENSE", "");
    fs::create_dir_all(older.path("docs/images")).unwrap();
    let older = |tag: &str| Older {
        tag: tag.to_owned(),
        source: older.0.clone(),
    };
    build(&Options {
        version_name: "v0.3.0".to_owned(),
        older: vec![older("v0.2.0"), older("v0.1.0")],
        ..options(&repository(), &scratch)
    })
    .unwrap();

    let site = files(&scratch.path("site"));
    let text = |name: &str| String::from_utf8_lossy(&site[Path::new(name)]).into_owned();
    let newest = text("docs/usage.html");
    assert!(newest.contains(">v0.3.0</summary>"), "{newest}");
    assert!(newest.contains("href=\"../v0.1.0/index.html\">v0.1.0</a>"));
    assert!(!newest.contains("older-version") && !newest.contains("noindex"));
    let old = text("v0.1.0/docs/b.html");
    assert!(old.contains(">v0.1.0</summary>"), "{old}");
    assert!(old.contains("href=\"../../v0.2.0/index.html\">v0.2.0</a>"));
    assert!(old.contains("These are the documents of v0.1.0. <a href=\"../../index.html\">"));
    assert!(old.contains("<meta name=\"robots\" content=\"noindex\">"));
    assert!(
        text("v0.1.0/index.html").contains("href=\"https://git.example/r/blob/v0.1.0/LICENSE\"")
    );

    // A page that breaks in an older version is named with the version.
    scratch.write("older/docs/SUMMARY.md", "# Start\n\n- [A](../README.md)\n");
    scratch.write("older/README.md", "[x](gone.md)");
    let broken = Older {
        source: scratch.path("older"),
        ..older("v0.1.0")
    };
    let error = build(&Options {
        older: vec![broken],
        ..options(&repository(), &scratch)
    })
    .unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.contains("the documents of v0.1.0")
            && error.contains("README.md:1: the link gone.md"),
        "{error}"
    );
}

#[test]
fn without_a_playground_there_is_no_link_to_it() {
    let scratch = Scratch::new();
    let report = build(&Options {
        playground: None,
        ..options(&repository(), &scratch)
    })
    .unwrap();
    assert_eq!(report.examples, 0);
    for (name, bytes) in files(&scratch.path("site")) {
        if name
            .extension()
            .is_some_and(|extension| extension == "html")
        {
            assert!(
                !String::from_utf8_lossy(&bytes).contains("playground/index.html"),
                "{}",
                name.display()
            );
        }
    }
}

#[test]
fn a_site_that_is_not_whole_is_refused() {
    let page = "# Start\n\n- [A](../README.md)\n- [B](b.md)\n";
    for (readme, b, more, reason) in [
        ("[x](docs/b.md#b)", "# B\n", None, ""),
        (
            "[x](docs/b.md#gone)",
            "# B\n",
            None,
            "docs/b.html has no such anchor",
        ),
        (
            "[x](docs/c.md)",
            "# B\n",
            None,
            "README.md:1: the link docs/c.md: there is no docs/c.md",
        ),
        (
            "x",
            "# B\n",
            Some("docs/c.md"),
            "docs/SUMMARY.md does not name these pages: docs/c.md",
        ),
        (
            "x",
            "# B\n",
            Some("docs/more/c.md"),
            "docs/SUMMARY.md does not name these pages: docs/more/c.md",
        ),
        (
            "x",
            "# B\n",
            Some("docs/images/a.png"),
            "no page shows these pictures: docs/images/a.png",
        ),
        (
            "x",
            "# B\n",
            Some("site/mine.txt"),
            "has files that are no site; name an empty folder",
        ),
        (
            "x",
            "```yaml\nkind: [\n```\n",
            None,
            "docs/b.md: the block at line 1",
        ),
    ] {
        let scratch = Scratch::new();
        scratch.write("docs/SUMMARY.md", page);
        scratch.write("README.md", readme);
        scratch.write("docs/b.md", b);
        fs::create_dir_all(scratch.path("docs/images")).unwrap();
        if let Some(file) = more {
            scratch.write(file, "");
        }
        let error = build(&options(&scratch.0, &scratch))
            .err()
            .map(|error| format!("{error:#}"))
            .unwrap_or_default();
        assert!(
            error.contains(reason) && error.is_empty() == reason.is_empty(),
            "expected {reason:?}: {error:?}"
        );
    }
}
