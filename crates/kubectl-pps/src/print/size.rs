//! The size of the terminal.

/// The rows of a terminal that only tells its columns.
const ROWS: usize = 24;

/// The columns and rows of the terminal, if the program has one and it tells its columns.
pub(super) fn columns_and_rows() -> Option<(usize, usize)> {
    known(reported()?)
}

/// `stty cols 80`, `script` and some CI systems leave the rows at 0.
fn known((columns, rows): (u16, u16)) -> Option<(usize, usize)> {
    let rows = if rows == 0 { ROWS } else { usize::from(rows) };
    (columns > 0).then(|| (usize::from(columns), rows))
}

#[cfg(unix)]
fn reported() -> Option<(u16, u16)> {
    use rustix::termios::{isatty, tcgetwinsize};
    fn of(stream: impl std::os::fd::AsFd) -> Option<(u16, u16)> {
        let size = isatty(&stream).then(|| tcgetwinsize(&stream).ok()).flatten()?;
        Some((size.ws_col, size.ws_row))
    }
    of(std::io::stdout()).or_else(|| of(std::io::stderr())).or_else(|| of(std::io::stdin()))
}

#[cfg(not(unix))]
fn reported() -> Option<(u16, u16)> {
    let (columns, rows) = terminal_size::terminal_size()?;
    Some((columns.0, rows.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_that_only_tells_its_columns_has_them() {
        assert_eq!(known((80, 0)), Some((80, 24)));
        assert_eq!(known((120, 50)), Some((120, 50)));
        assert_eq!(known((0, 0)), None);
    }
}
