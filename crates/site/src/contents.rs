//! Which pages the site has, and in which order: `docs/SUMMARY.md`.

use std::path::{Component, Path};

use anyhow::{Context, Result, bail, ensure};
use mdbook_summary::{SummaryItem, parse_summary};

pub const FOLDER: &str = "docs";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The title of the pages that follow.
    Part(String),
    Page(Page),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub title: String,
    /// The document, relative to the repository.
    pub file: String,
}

/// Reads the table of contents. The first page is the start page.
///
/// Fails if a page is nested, named twice or outside of the repository.
pub fn parse(summary: &str) -> Result<Vec<Entry>> {
    let summary = parse_summary(summary)?;
    let mut entries: Vec<Entry> = Vec::new();
    let items = [
        summary.prefix_chapters,
        summary.numbered_chapters,
        summary.suffix_chapters,
    ];
    for item in items.into_iter().flatten() {
        match item {
            SummaryItem::PartTitle(title) => entries.push(Entry::Part(title)),
            SummaryItem::Separator => {}
            SummaryItem::Link(link) => {
                let location = link
                    .location
                    .as_deref()
                    .and_then(Path::to_str)
                    .unwrap_or_default();
                ensure!(
                    !location.is_empty(),
                    "{}: the entry names no file",
                    link.name
                );
                ensure!(
                    link.nested_items.is_empty(),
                    "{}: move the pages below it to the top level",
                    link.name
                );
                let file = resolve(FOLDER, location).with_context(|| link.name.clone())?;
                let page = Page {
                    title: link.name,
                    file,
                };
                if pages(&entries).any(|known| known.file == page.file) {
                    bail!("{} is named twice", page.file);
                }
                entries.push(Entry::Page(page));
            }
            item => bail!("this kind of entry is not supported: {item:?}"),
        }
    }
    ensure!(
        pages(&entries).next().is_some(),
        "the table of contents names no page"
    );
    Ok(entries)
}

pub fn pages(entries: &[Entry]) -> impl Iterator<Item = &Page> {
    entries.iter().filter_map(|entry| match entry {
        Entry::Page(page) => Some(page),
        Entry::Part(_) => None,
    })
}

/// The path that a relative path of a file in this folder leads to. Both are relative to the
/// repository.
pub fn resolve(folder: &str, path: &str) -> Result<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => parts.push(name.to_str().context("a name is not UTF-8")?),
            Component::ParentDir => {
                ensure!(parts.pop().is_some(), "{path} leads out of the repository");
            }
            Component::RootDir | Component::Prefix(_) => bail!("{path} is not relative"),
        }
    }
    Ok(parts.join("/"))
}

/// The folder of a file, `""` for the repository itself.
pub fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The page of a document on the site, as Markdown: a `README.md` is the index of its folder.
pub fn on_site(file: &str) -> String {
    match file.strip_suffix("README.md") {
        Some(folder) if folder.is_empty() || folder.ends_with('/') => format!("{folder}index.md"),
        _ => file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_the_site_cannot_show_are_refused() {
        for (summary, reason) in [
            (
                "- [A](a.md)\n- [B](../docs/a.md)\n",
                "docs/a.md is named twice",
            ),
            (
                "- [A](a.md)\n    - [B](b.md)\n",
                "A: move the pages below it to the top level",
            ),
            (
                "- [A](../../a.md)\n",
                "../../a.md leads out of the repository",
            ),
            ("- [A]()\n", "A: the entry names no file"),
            ("# Summary\n", "the table of contents names no page"),
        ] {
            let error = format!("{:#}", parse(summary).unwrap_err());
            assert!(error.contains(reason), "{summary}: {error}");
        }
    }
}
