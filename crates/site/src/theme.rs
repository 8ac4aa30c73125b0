//! What this project changes in mdBook's theme.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use mdbook_html::theme::Theme;
use mdbook_renderer::config::HtmlConfig;

use crate::check::PLAYGROUND;
use crate::versions::Edition;

const HEAD: &str = include_str!("../theme/head.hbs");
const STYLE: &str = include_str!("../theme/site.css");
pub const STYLE_NAME: &str = "site.css";

/// Keeps search engines from leading to an older version.
const NOT_INDEXED: &str = "<meta name=\"robots\" content=\"noindex\">\n";

/// Writes a theme into a folder: mdBook's template of a page, which says the version, with links
/// to all versions and, if there is one, to the playground.
pub(crate) fn write(folder: &Path, edition: &Edition, names: &[&str]) -> Result<()> {
    let theme = folder.join("theme");
    let mut default = HtmlConfig::default();
    default.theme = Some("default".into());
    Theme::copy_theme(&default, folder).context("cannot write mdBook's theme")?;
    let index = fs::read_to_string(folder.join("default/index.hbs"))?;
    fs::create_dir_all(&theme)?;
    fs::write(theme.join("index.hbs"), page(&index, edition, names)?)?;
    let robots = if edition.is_older { NOT_INDEXED } else { "" };
    fs::write(theme.join("head.hbs"), format!("{HEAD}{robots}"))?;
    fs::write(folder.join(STYLE_NAME), STYLE)?;
    Ok(())
}

fn page(template: &str, edition: &Edition, names: &[&str]) -> Result<String> {
    let page = replace(template, "Search this book ...", "Search the documents")?;
    let buttons = "<div class=\"right-buttons\">";
    let mut links = format!("{buttons}\n{}", chooser(edition, names));
    if edition.has_playground {
        let _ = write!(
            links,
            "\n<a class=\"to-playground\" href=\"{{{{ path_to_root \
             }}}}{PLAYGROUND}/index.html\">Playground</a>"
        );
    }
    let page = replace(&page, buttons, &links)?;
    let content = "{{{ content }}}";
    let notice = if edition.is_older {
        let newest = edition.way_to(0, names[0]);
        format!(
            "<p class=\"older-version\">These are the documents of {}. <a href=\"{{{{ path_to_root \
             }}}}{newest}\">Those of {}</a> are newer.</p>\n",
            edition.name, names[0]
        )
    } else {
        String::new()
    };
    replace(&page, content, &format!("{notice}{content}"))
}

/// The name of the version, with a link to each version if there are several.
fn chooser(edition: &Edition, names: &[&str]) -> String {
    let name = edition.name;
    if names.len() == 1 {
        return format!("<span class=\"version\" title=\"Version\">{name}</span>");
    }
    let mut items = String::new();
    for (index, other) in names.iter().enumerate() {
        let current = if *other == name {
            " aria-current=\"true\""
        } else {
            ""
        };
        let way = edition.way_to(index, other);
        let _ = write!(
            items,
            "<li><a href=\"{{{{ path_to_root }}}}{way}\"{current}>{other}</a></li>"
        );
    }
    format!(
        "<details class=\"version\"><summary title=\"Choose a version\">{name}</summary><ul>{items}</ul></details>"
    )
}

/// Replaces a text that must occur once: another version of mdBook may have another template.
fn replace(template: &str, old: &str, new: &str) -> Result<String> {
    match template.matches(old).count() {
        1 => Ok(template.replace(old, new)),
        count => {
            anyhow::bail!("mdBook's template of a page has {old} {count} times instead of once")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_template_is_refused() {
        let edition = |has_playground| Edition {
            name: "main",
            source: Path::new("."),
            output: "site".into(),
            repository: "https://git.example/r",
            revision: "HEAD",
            has_playground,
            is_older: false,
        };
        let template =
            "Search this book ...<div class=\"right-buttons\"><main>{{{ content }}}</main>";
        assert!(
            page(template, &edition(true), &["main"])
                .unwrap()
                .contains("{{ path_to_root }}playground/index.html")
        );
        let without = page(template, &edition(false), &["main"]).unwrap();
        assert!(!without.contains("playground"));
        let error = page("Search this book ...", &edition(true), &["main"]);
        let error = error.unwrap_err().to_string();
        assert!(error.ends_with("0 times instead of once"), "{error}");
    }
}
