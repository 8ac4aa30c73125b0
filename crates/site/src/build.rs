//! Builds the site.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use mdbook_html::HtmlHandlebars;
use mdbook_renderer::book::{Book, BookItem, Chapter};
use mdbook_renderer::config::Config;
use mdbook_renderer::{RenderContext, Renderer};
use serde_json::json;

use crate::check::{PLAYGROUND, has_extension, problems};
use crate::contents::{Entry, FOLDER, on_site, pages, parse};
use crate::example::{add_links, find};
use crate::links::{Kind, Targets, rewrite};
use crate::options::Options;
use crate::theme;
use crate::versions::Edition;

/// The product's name, above each page.
const TITLE: &str = "PersistentPodState for Kubewarden";
const DESCRIPTION: &str =
    "Stateful Pods return to the node and the zone they had, and to their IP address";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The number of pages, without those of older versions and the playground.
    pub pages: usize,
    /// The number of examples that have a link to the playground.
    pub examples: usize,
}

/// Builds the site and checks it. On a failed check, the site is left to look at.
pub fn build(options: &Options) -> Result<Report> {
    let output = &options.output;
    ensure_replaceable(output)?;
    let editions = Edition::all(options)?;
    let names: Vec<&str> = editions.iter().map(|edition| edition.name).collect();
    // The first one replaces the site, so the older ones come after it.
    let mut reports = Vec::new();
    for edition in &editions {
        let report = render(edition, &names, &output.with_extension("staging"));
        reports.push(report.with_context(|| format!("the documents of {}", edition.name))?);
    }
    if let Some(playground) = &options.playground {
        copy_folder(playground, &output.join(PLAYGROUND))?;
    }

    let problems = problems(output)?;
    ensure!(
        problems.is_empty(),
        "the site has {} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
    Ok(reports.swap_remove(0))
}

/// Writes the pages of one version, which link to the others.
fn render(edition: &Edition, names: &[&str], staging: &Path) -> Result<Report> {
    let source = edition.source;
    let summary = format!("{FOLDER}/SUMMARY.md");
    let entries = parse(&read(source, &summary)?).context(summary)?;
    let unused = unused(
        source,
        &pages(&entries).map(|page| page.file.as_str()).collect(),
    )?;
    ensure!(
        unused.is_empty(),
        "{FOLDER}/SUMMARY.md does not name these pages: {}",
        unused.join(", ")
    );

    let Assembled {
        book,
        files,
        examples,
    } = assemble(edition, &entries)?;
    let unshown = unshown(source, &files)?;
    ensure!(
        unshown.is_empty(),
        "no page shows these pictures: {}",
        unshown.join(", ")
    );

    remove(staging)?;
    theme::write(staging, edition, names)?;
    for file in &files {
        copy(&source.join(file), &staging.join("files").join(file))?;
    }
    fs::create_dir_all(staging.join("files"))?;
    let context = RenderContext::new(staging, book, config(edition.repository)?, &edition.output);
    HtmlHandlebars::new()
        .render(&context)
        .context("cannot render the pages")?;
    remove(staging)?;
    Ok(Report {
        pages: pages(&entries).count(),
        examples,
    })
}

#[derive(Default)]
struct Assembled {
    /// The pages with links that work on the site.
    book: Book,
    /// The files that the pages show.
    files: BTreeSet<String>,
    /// The number of examples.
    examples: usize,
}

fn assemble(edition: &Edition, entries: &[Entry]) -> Result<Assembled> {
    let targets = Targets {
        pages: pages(entries).map(|page| page.file.as_str()).collect(),
        repository: edition.repository,
        revision: edition.revision,
        kind: &|path| kind(&edition.source.join(path)),
    };
    let mut assembled = Assembled::default();
    for entry in entries {
        match entry {
            Entry::Part(title) => {
                assembled.book.push_item(BookItem::PartTitle(title.clone()));
            }
            Entry::Page(page) => {
                let document = read(edition.source, &page.file)?;
                let rewritten = rewrite(&page.file, &document, &targets)?;
                assembled.files.extend(rewritten.files);
                let mut markdown = rewritten.markdown;
                if edition.has_playground {
                    assembled.examples += find(&markdown).with_context(|| page.file.clone())?.len();
                    let up = "../".repeat(page.file.matches('/').count());
                    markdown = add_links(&markdown, &format!("{up}{PLAYGROUND}/index.html"))?;
                }
                assembled.book.push_item(Chapter::new(
                    &page.title,
                    markdown,
                    on_site(&page.file),
                    Vec::new(),
                ));
            }
        }
    }
    Ok(assembled)
}

fn kind(path: &Path) -> Kind {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Kind::Folder,
        Ok(_) => Kind::File,
        Err(_) => Kind::Missing,
    }
}

fn config(repository: &str) -> Result<Config> {
    let mut config = Config::default();
    config.book.title = Some(TITLE.to_owned());
    config.book.description = Some(DESCRIPTION.to_owned());
    config.book.src = "files".into();
    let html = json!({
        "theme": "theme",
        "additional-css": [theme::STYLE_NAME],
        "git-repository-url": repository,
        "git-repository-icon": "fab-git-alt",
        "no-section-label": true,
        // The Git host renders quotes, dashes and lists of definitions as they are written.
        "smart-punctuation": false,
        "definition-lists": false,
        // Rust code would get a button that sends it to a server.
        "playground": {"runnable": false, "copy-js": false},
        "print": {"enable": false},
        // The Git host of the site has its own page for missing pages.
        "input-404": "",
        "search": {"limit-results": 20, "use-boolean-and": true, "boost-title": 3},
    });
    config.set("output.html", html)?;
    Ok(config)
}

/// The documents in `docs` and in its folders that are no pages.
fn unused(source: &Path, pages: &BTreeSet<&str>) -> Result<Vec<String>> {
    let mut unused = Vec::new();
    let mut folders = vec![FOLDER.to_owned()];
    while let Some(folder) = folders.pop() {
        for name in names(&source.join(&folder))? {
            let file = format!("{folder}/{name}");
            if source.join(&file).is_dir() {
                folders.push(file);
            } else if has_extension(&name, "md")
                && name != "SUMMARY.md"
                && !pages.contains(file.as_str())
            {
                unused.push(file);
            }
        }
    }
    unused.sort();
    Ok(unused)
}

/// The pictures in `docs/images` that no page shows.
fn unshown(source: &Path, shown: &BTreeSet<String>) -> Result<Vec<String>> {
    let folder = format!("{FOLDER}/images");
    Ok(names(&source.join(&folder))?
        .into_iter()
        .map(|name| format!("{folder}/{name}"))
        .filter(|picture| !shown.contains(picture))
        .collect())
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// A build deletes the content of the folder, so the folder has to be empty or a site.
fn ensure_replaceable(output: &Path) -> Result<()> {
    let is_site = output.join(".nojekyll").is_file();
    let is_free = !output.exists() || (output.is_dir() && names(output)?.is_empty());
    ensure!(
        is_site || is_free,
        "--output: {} has files that are no site; name an empty folder",
        output.display()
    );
    Ok(())
}

fn read(source: &Path, file: &str) -> Result<String> {
    fs::read_to_string(source.join(file)).with_context(|| format!("cannot read {file}"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for name in names(from)? {
        let source = from.join(&name);
        let target = to.join(&name);
        if source.is_dir() {
            copy_folder(&source, &target)?;
        } else {
            copy(&source, &target)?;
        }
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            bail!("cannot remove {}: {error}", folder.display())
        }
        _ => Ok(()),
    }
}
