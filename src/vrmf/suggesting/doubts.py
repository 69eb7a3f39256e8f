"""The doubts about a suggestion, and which other models may be better.

One function for each sentence: it returns the sentence, or None if it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable

from vrmf.sources.columns import shell
from vrmf.suggesting.findings import SPARSE, UNEVEN, Findings
from vrmf.suggesting.rules import (
    A_LITTLE_SPARSE,
    FEW_FEATURES,
    FEW_ROWS,
    Choice,
    counted,
    percent,
)

#: Samples of fewer rows or features may hide components.
SOME_ROWS, SOME_FEATURES = 50, 10

#: Tails are heavy if more than this share of the entries is between noise and outliers. Of normal noise
#: 0.05 % is.
HEAVY_TAILS = 0.01

#: With this ratio of the noise to the standard deviation components have a twentieth of the variance.
MOSTLY_NOISE = 0.975

#: There may be outliers if more than this share of the entries is far from every low-rank fit.
SUSPICIOUS = 0.03

#: With fewer features or rows, entries far from a fit may be those that the fit missed.
SMALL_SIDE = 20

Doubt = Callable[[Findings, Choice], str | None]


def doubts(found: Findings, choice: Choice) -> tuple[str, ...]:
    """Return the sentences that apply."""
    return tuple(told for doubt in DOUBTS if (told := doubt(found, choice)) is not None)


def identifiers(found: Findings, choice: Choice) -> str | None:
    """Columns that look as if they identified rows."""
    if not found.identifiers:
        return None
    names = ", ".join(map(repr, found.identifiers))
    drops = " ".join(f"--drop {shell(name)}" for name in found.identifiers)
    return (
        f"Columns may identify rows rather than measure anything: {names}, of whole numbers, with "
        f"{percent(found.identifier_share)} of the variance. If so leave out what does: {drops} in a "
        f"command, X.drop(columns=[{names}]) of a data frame."
    )


def few_rows(found: Findings, choice: Choice) -> str | None:
    """Too few rows for any number of components."""
    if found.rows_read >= FEW_ROWS:
        return None
    told = f"There are too few rows ({found.rows_read}) to tell components from noise."
    return f"{told} At least {FEW_ROWS} are needed."


def few_features(found: Findings, choice: Choice) -> str | None:
    """Too few features for any number of components."""
    if not 1 < found.n_features < FEW_FEATURES or found.constant_features == found.n_features:
        return None
    told = f"There are too few features ({found.n_features}) to tell components from noise."
    return f"{told} At least {FEW_FEATURES} are needed."


def some_rows(found: Findings, choice: Choice) -> str | None:
    """Few rows show strong components only."""
    if not FEW_ROWS <= found.rows_read < SOME_ROWS:
        return None
    return f"With {found.rows_read} rows only strong components stand out: there may be more."


def some_features(found: Findings, choice: Choice) -> str | None:
    """Few features show strong components only."""
    if not FEW_FEATURES <= found.n_features < SOME_FEATURES or found.rank_about_mean == 0:
        return None
    return f"With {found.n_features} features only strong components stand out: there may be more."


def no_structure(found: Findings, choice: Choice) -> str | None:
    """Noise, or constant rows."""
    if found.rank_about_mean > 0 or found.rows_read < FEW_ROWS:
        return None
    if found.constant_features == found.n_features:
        return "All rows are equal: there is no structure to find."
    if 1 < found.n_features < FEW_FEATURES:
        return None
    return (
        "Nothing stands out of the noise about the mean row: there is no structure that a factorization "
        "could find. Fit none, or give more rows."
    )


def missing(found: Findings, choice: Choice) -> str | None:
    """NaN and infinite entries."""
    if not found.missing_share:
        return None
    return (
        f"{percent(found.missing_share)} of the entries are missing (NaN or infinite). Here they were "
        "taken for the median of their feature, but models take no such entries: fill them, as "
        "SimpleImputer of scikit-learn does, or leave such rows out."
    )


def uneven_scales(found: Findings, choice: Choice) -> str | None:
    """Features of very different scales."""
    if found.scale_ratio <= UNEVEN:
        return None
    return (
        f"Features differ in scale by a factor of about {found.scale_ratio:.2g}; the largest would decide "
        "alone. What is said here holds for features divided by their standard deviation. Scale them "
        "first, as StandardScaler(with_mean=False) of scikit-learn does."
    )


def slow_decrease(found: Findings, choice: Choice) -> str | None:
    """No gap in the singular values."""
    if not found.decreases_slowly or choice.model == "robust-pca" or found.n_atoms is not None:
        return None
    told = counted(found.rank, "component", "stand")
    return (
        f"Singular values decrease slowly: {told} out of the noise, and there is no gap after any number. "
        "Choose it by what you need: fewer to look at, more for a smaller error."
    )


def slow_rank(found: Findings, choice: Choice) -> str | None:
    """The same where the model finds the rank."""
    if not found.decreases_slowly or choice.model != "robust-pca":
        return None
    told = counted(found.components_for_most, "component", "explain")
    return (
        "Singular values decrease slowly, so the rank that is found depends on the noise only. Set "
        f"n_components to bound it: {told} 90 % of the variance."
    )


def heavy_tails(found: Findings, choice: Choice) -> str | None:
    """Residuals with heavy tails."""
    if found.has_outliers or found.tail_share < HEAVY_TAILS or found.outlier_share > SUSPICIOUS:
        return None
    other = {"nmf": "RobustNMF", "dictionary-learning": "RobustPCA"}.get(choice.model)
    remedy = f" If large errors should count less, try {other}." if other else ""
    return f"What the components leave has heavier tails than normal noise.{remedy}"


def unclear_outliers(found: Findings, choice: Choice) -> str | None:
    """Entries far from the fit that may be outliers, or a sign that no low rank fits."""
    if found.has_outliers or found.outlier_share <= SUSPICIOUS:
        return None
    return (
        f"{percent(found.outlier_share)} of the entries are far from a robust low-rank fit, with no gap "
        "to the others. They may be outliers, or the rows are not of low rank. Compare with a model "
        "with outliers."
    )


def outliers_of_small_table(found: Findings, choice: Choice) -> str | None:
    """A fit to a small table has few entries for each of its parameters, so it may miss structure."""
    side = min(found.rows_read, found.n_features)
    if not found.has_outliers or found.spike_share or side >= SMALL_SIDE:
        return None
    what = counted(side, "feature" if side == found.n_features else "row")
    other = "NMF" if found.is_nonnegative else "a model without outliers"
    return (
        f"With {what} only, outliers can hardly be told from entries that the fit misses: that "
        f"there are any is not sure. Compare with {other}."
    )


def weak(found: Findings, choice: Choice) -> str | None:
    """Components that explain little."""
    if found.rank_about_mean == 0 or found.noise_share < MOSTLY_NOISE:
        return None
    return "Nearly all of the variance is noise: the components that stand out explain little."


def guessed_image(found: Findings, choice: Choice) -> str | None:
    """An image shape that was guessed."""
    if found.image_shape is None or found.image_is_known:
        return None
    height, width = found.image_shape
    return f"Rows look like images of {height} × {width} pixels; that is a guess."


def squared_loss_of_counts(found: Findings, choice: Choice) -> str | None:
    """Counts have noise that grows with their mean."""
    if not found.are_counts or found.image_shape or found.rank_about_mean == 0 or choice.model != "nmf":
        return None
    return (
        "Counts have noise that grows with their mean, while the squared error treats all entries alike: "
        "large counts decide. The square root of the counts evens that out."
    )


def growing_noise(found: Findings, choice: Choice) -> str | None:
    """Noise in proportion to the entries, which makes components of its own."""
    is_open = found.is_nonnegative and not found.have_counting_noise and found.image_shape is None
    if not (found.noise_grows and is_open) or found.rank_about_mean == 0:
        return None
    logarithm = "np.log" if found.zero_share == 0 else "np.log1p"
    return (
        "What the components leave grows with the entries, so the largest decide, and the number of "
        "components is unsure. If errors are in proportion to the entries, take logarithms first "
        f"({logarithm}(X)), and compare."
    )


def one_feature(found: Findings, choice: Choice) -> str | None:
    """No more than one component is possible."""
    if found.n_features > 1:
        return None
    return "There is one feature only: a factorization tells nothing new."


def borderline_sparsity(found: Findings, choice: Choice) -> str | None:
    """Codes that are nearly sparse enough, or hardly."""
    if choice.model not in ("robust-pca", "dictionary-learning") or found.has_outliers:
        return None
    if not A_LITTLE_SPARSE < found.sparseness < 2 * SPARSE:
        return None
    return "Codes are a little sparse: RobustPCA and DictionaryLearning are both reasonable."


def many_atoms(found: Findings, choice: Choice) -> str | None:
    """The number of atoms of an overcomplete dictionary."""
    if choice.model != "dictionary-learning" or not found.decreases_slowly or found.n_atoms is not None:
        return None
    return (
        "A dictionary may have more atoms than there are features. No spectrum tells their number; compare "
        "errors of new rows at equal sparsity."
    )


#: In the order in which they are listed.
DOUBTS: tuple[Doubt, ...] = (
    identifiers,
    few_rows,
    few_features,
    no_structure,
    one_feature,
    missing,
    uneven_scales,
    some_rows,
    some_features,
    weak,
    slow_decrease,
    slow_rank,
    many_atoms,
    unclear_outliers,
    outliers_of_small_table,
    heavy_tails,
    borderline_sparsity,
    squared_loss_of_counts,
    growing_noise,
    guessed_image,
)

#: Which models may be better than the one that is chosen, and when.
ALTERNATIVES: dict[str, tuple[tuple[str, str], ...]] = {
    "nmf": (
        ("robust-nmf", "if some entries may be grossly wrong."),
        ("dictionary-learning", "if components need not be nonnegative, or codes should be sparse."),
    ),
    "smooth-dictionary-learning": (("nmf", "if components may have sharp edges."),),
    "robust-nmf": (
        ("robust-pca", "if components need not be nonnegative parts; it finds their number."),
        ("nmf", "if there are no outliers; set negative entries to 0 first."),
    ),
    "dictionary-learning": (
        ("group-dictionary-learning", "if you know which atoms belong together."),
        ("robust-pca", "if you want few dense components, or entries may be grossly wrong."),
    ),
    "robust-pca": (
        ("dictionary-learning", "if each row should use few components."),
        ("max-norm-decomposition", "if no feature may dominate the components."),
    ),
}
