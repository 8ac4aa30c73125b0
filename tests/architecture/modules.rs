//! The modules of a crate, and which files they import.

use std::collections::BTreeMap;

use crate::circles::Graph;
use crate::mentions::{Binding, Mentions, Path, is_within};

/// After following this many re-exports, a name counts as not found.
const MAX_REEXPORTS: usize = 16;

/// The modules of a crate, without test modules. The first one is the root.
pub(crate) struct Crate {
    modules: Vec<Module>,
}

struct Module {
    /// For an inline module, the file of the module around it.
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    mentions: Mentions,
}

/// What a file mentions. Names of other crates are written in full, such as `std::time::Instant::now`.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// The names outside of `use` declarations.
    pub(crate) names: Vec<String>,
    /// The names in `use` declarations.
    pub(crate) imported: Vec<String>,
    pub(crate) methods: Vec<String>,
    pub(crate) is_async: bool,
}

impl Code {
    /// Whether the file names one of these or a path in it.
    pub(crate) fn names_any(&self, outer: &[&str]) -> bool {
        let mut names = self.names.iter().chain(&self.imported);
        names.any(|name| outer.iter().any(|outer| is_within(name, outer)))
    }
}

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    /// To a module of this crate, or to an item of this module.
    Module(usize),
    /// To another crate.
    Outside(String),
}

impl Crate {
    /// Reads a crate from its root file. `read` gives the text of a file, if it exists.
    pub(crate) fn load(root: &str, read: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut modules = Self { modules: Vec::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        let text = read(root).unwrap_or_else(|| panic!("{root} does not exist"));
        modules.add_file(root, folder, &text, None, read);
        modules
    }

    fn add_file(
        &mut self,
        file: &str,
        folder: &str,
        text: &str,
        parent: Option<usize>,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> usize {
        let syntax = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        self.add(file, folder, Mentions::read(&syntax.items), parent, read)
    }

    fn add(
        &mut self,
        file: &str,
        folder: &str,
        mut mentions: Mentions,
        parent: Option<usize>,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> usize {
        let id = self.modules.len();
        let inline = std::mem::take(&mut mentions.inline);
        let files = std::mem::take(&mut mentions.files);
        self.modules.push(Module { file: file.into(), parent, children: BTreeMap::new(), mentions });
        for (name, mentions) in inline {
            let child = self.add(file, &format!("{folder}/{name}"), mentions, Some(id), read);
            self.modules[id].children.insert(name, child);
        }
        for name in files {
            let paths = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
            let found = paths.iter().find_map(|path| Some((path, read(path)?)));
            let (path, text) = found.unwrap_or_else(|| panic!("{file}: no file for the module {name}"));
            let child = self.add_file(path, &format!("{folder}/{name}"), &text, Some(id), read);
            self.modules[id].children.insert(name, child);
        }
        id
    }

    /// What each file mentions.
    pub(crate) fn code(&self) -> BTreeMap<String, Code> {
        let mut files: BTreeMap<String, Code> = BTreeMap::new();
        for (id, module) in self.modules.iter().enumerate() {
            let code = files.entry(module.file.clone()).or_default();
            let outside = |target| match target {
                Target::Outside(name) => Some(name),
                Target::Module(_) => None,
            };
            let (paths, bindings) = (module.mentions.paths.iter(), module.mentions.bindings.iter());
            code.names.extend(paths.filter_map(|path| self.resolve(id, path, 0)).filter_map(outside));
            code.imported
                .extend(bindings.filter_map(|binding| self.follow(id, binding, &[], 0)).filter_map(outside));
            code.methods.extend(module.mentions.methods.iter().cloned());
            code.is_async |= module.mentions.is_async;
        }
        files
    }

    /// Which files of the crate import which. Declaring a child module, or re-exporting from it, is not an import.
    pub(crate) fn file_imports(&self) -> Graph {
        let mut graph = Graph::new();
        for (id, module) in self.modules.iter().enumerate() {
            let imports = graph.entry(module.file.clone()).or_default();
            let bindings = module.mentions.bindings.iter().filter(|binding| binding.name != "*");
            let bound = bindings.map(|one| (&one.path, one.is_public, self.follow(id, one, &[], 0)));
            let used = module.mentions.paths.iter().map(|path| (path, false, self.resolve(id, path, 0)));
            for (path, is_reexport, target) in bound.chain(used) {
                let Some(Target::Module(target)) = target else { continue };
                let file = &self.modules[target].file;
                if *file != module.file && !(is_reexport && self.is_below(target, id)) {
                    imports.entry(file.clone()).or_insert_with(|| path.join("::"));
                }
            }
        }
        graph
    }

    fn is_below(&self, module: usize, ancestor: usize) -> bool {
        std::iter::successors(Some(module), |module| self.modules[*module].parent)
            .skip(1)
            .any(|id| id == ancestor)
    }

    /// Resolves a name that a `use` brings into a module, followed by `rest`.
    fn follow(&self, module: usize, binding: &Binding, rest: &[String], depth: usize) -> Option<Target> {
        let path: Path = binding.path.iter().chain(rest).cloned().collect();
        // In `use json::json` the first name is that of another crate, not what is being imported.
        if path[0] == binding.name && !self.modules[module].children.contains_key(&path[0]) {
            return Some(Target::Outside(path.join("::")));
        }
        self.resolve(module, &path, depth)
    }

    /// Resolves a path that is written in a module. None if it is a local name.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        if depth > MAX_REEXPORTS {
            return None;
        }
        match first.as_str() {
            "crate" => self.descend(0, rest, depth),
            "self" => self.descend(module, rest, depth),
            "super" => self.descend(self.modules[module].parent?, rest, depth),
            _ => self.look_up(module, first, rest, depth).or_else(|| {
                // `core` and `alloc` are part of the standard library.
                let first = if ["core", "alloc"].contains(&first.as_str()) { "std" } else { first };
                let is_name = rest.is_empty() && depth == 0;
                let outside = std::iter::once(first).chain(rest.iter().map(String::as_str));
                (!is_name || is_std_macro(first))
                    .then(|| Target::Outside(outside.collect::<Vec<_>>().join("::")))
            }),
        }
    }

    /// Resolves a path relative to a module. A name that is not found there counts as the module's own.
    fn descend(&self, module: usize, path: &[String], depth: usize) -> Option<Target> {
        match path.split_first() {
            None => Some(Target::Module(module)),
            Some((name, rest)) if name == "super" => self.descend(self.modules[module].parent?, rest, depth),
            Some((name, rest)) => self.look_up(module, name, rest, depth).or(Some(Target::Module(module))),
        }
    }

    /// Resolves a name in a module, followed by `rest`. It may be a child, an item, or brought in by a `use`.
    fn look_up(&self, id: usize, name: &str, rest: &[String], depth: usize) -> Option<Target> {
        let module = &self.modules[id];
        if let Some(child) = module.children.get(name) {
            return self.descend(*child, rest, depth);
        }
        if module.mentions.items.iter().any(|item| item == name) {
            return Some(Target::Module(id));
        }
        let bindings = &module.mentions.bindings;
        if let Some(binding) = bindings.iter().find(|binding| binding.name == name) {
            return self.follow(id, binding, rest, depth + 1);
        }
        bindings.iter().filter(|binding| binding.name == "*").find_map(|glob| {
            match self.follow(id, glob, &[], depth + 1)? {
                Target::Module(target) if target != id && depth < MAX_REEXPORTS => {
                    self.look_up(target, name, rest, depth + 1)
                }
                _ => None,
            }
        })
    }
}

/// Macros of the standard library, which need no import.
fn is_std_macro(name: &str) -> bool {
    ["print", "println", "eprint", "eprintln", "dbg"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circles::circles;

    fn crate_of(files: &[(&str, &str)]) -> Crate {
        Crate::load("src/lib.rs", &|path| {
            let found = files.iter().find(|(file, _)| path.strip_prefix("src/") == Some(file));
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    /// Each import as `from -> to`, without the folder.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let graph = crate_of(files).file_imports();
        let short = |file: &str| file.trim_start_matches("src/").trim_end_matches(".rs").to_owned();
        graph
            .iter()
            .flat_map(|(from, to)| to.keys().map(move |to| format!("{} -> {}", short(from), short(to))))
            .collect()
    }

    #[test]
    fn finds_a_circle_through_use_declarations_types_and_macros() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            ("b.rs", "pub struct B; fn f() -> super::c::C { todo!() }"),
            ("c.rs", "pub struct C; fn f() { assert!(if true { crate::a::A::new().x } else { false }); }"),
        ];
        assert_eq!(imports(&files), ["a -> b", "b -> c", "c -> a"]);
        let found = circles(crate_of(&files).file_imports());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].files(), ["src/a.rs", "src/b.rs", "src/c.rs"]);
    }

    #[test]
    fn using_a_child_is_an_import_but_declaring_or_reexporting_it_is_not() {
        let child = ("a.rs", "pub struct A;");
        assert_eq!(
            imports(&[("lib.rs", "mod a; pub use self::a::A; pub(crate) use a::A as B;"), child]),
            [""; 0]
        );
        for code in ["use a::A; fn f(_: A) {}", "fn f(_: a::A) {}", "pub use a::A; fn f(_: A) {}"] {
            assert_eq!(imports(&[("lib.rs", &format!("mod a; {code}")), child]), ["lib -> a"], "{code}");
        }
    }

    #[test]
    fn resolves_a_name_of_the_parent_to_its_definition() {
        let parent = "mod a; mod b; pub use self::b::B; pub use std::time::Instant; pub struct P; mod inner { pub struct I; }";
        let b = ("b.rs", "pub struct B;");
        for (code, expected) in [
            ("use super::P;", vec!["a -> lib"]),
            ("use super::inner::I;", vec!["a -> lib"]),
            ("use super::B;", vec!["a -> b"]),
            ("use super::*; fn f(_: B) {}", vec!["a -> b"]),
            ("use super::*; fn f(_: P) {}", vec!["a -> lib"]),
            ("use super::Instant;", vec![]),
            ("mod c { use super::super::P; }", vec!["a -> lib"]),
            ("pub(super) struct A;", vec![]),
        ] {
            assert_eq!(imports(&[("lib.rs", parent), ("a.rs", code), b]), expected, "{code}");
        }
    }

    #[test]
    fn ignores_comments_strings_and_test_modules() {
        let code = r#"
            //! See [`crate::b::B`].
            /// And `std::fs`.
            fn f() { println!("crate::b::B std::fs"); }
            #[cfg(test)]
            mod tests { use crate::b::B; use std::fs; }
            #[cfg(test)]
            use crate::b::B;
            #[cfg(test)]
            mod more;
        "#;
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", code), ("b.rs", "pub struct B;")];
        assert_eq!(imports(&files), [""; 0]);
        let code = &crate_of(&files).code()["src/a.rs"];
        assert!(code.names_any(&["println"]) && !code.names_any(&["std"]), "{code:?}");
    }

    #[test]
    fn expands_names_of_other_crates() {
        let code = r"
            use std::time::{self, Instant as Start};
            use json::json;
            async fn f() { Start::now(); time::SystemTime::now(); core::time::Duration::ZERO; json!({}); a.b().await; }
        ";
        let code = &crate_of(&[("lib.rs", code)]).code()["src/lib.rs"];
        let expected = [
            "std::time::Instant::now",
            "std::time::SystemTime::now",
            "std::time::Duration::ZERO",
            "json::json",
        ];
        assert_eq!((&code.names[..], code.is_async), (&expected.map(str::to_owned)[..], true));
        assert_eq!(code.imported, ["std::time", "std::time::Instant", "json::json"]);
        assert_eq!(code.methods, ["b"]);
    }
}
