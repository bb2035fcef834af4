// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// English word lists for folding, each sorted. A word missing from a list of what may be folded
/// only costs a miss. Lists of what must not be folded say so in their comment.
namespace afterimage::english {

/// A sorted list of words. contains() is asked about every word of a text, and the answer is nearly always no: most words
/// are told by their first and last letter.
template <std::size_t N>
class WordList {
 public:
  consteval explicit WordList(const std::array<std::string_view, N>& words) : words_(words) {
    for (const std::string_view word : words_) ends_[row_of(word)] |= column_of(word);
    if (!std::ranges::is_sorted(words_)) throw "the words are not sorted";
  }
  [[nodiscard]] constexpr bool contains(std::string_view word) const {
    return may_contain(word) && std::ranges::binary_search(words_, word);
  }
  /// The same, whatever the case of the word's letters. False: certainly not.
  [[nodiscard]] constexpr bool may_contain(std::string_view word) const {
    return !word.empty() && (ends_[row_of(word)] & column_of(word)) != 0;
  }

 private:
  static constexpr std::size_t row_of(std::string_view word) {
    return static_cast<unsigned char>(word.front()) % 32U;
  }
  static constexpr std::uint32_t column_of(std::string_view word) {
    return std::uint32_t{1} << static_cast<unsigned char>(word.back()) % 32U;
  }

  std::array<std::string_view, N> words_;
  std::array<std::uint32_t, 32> ends_{};
};

template <std::size_t N>
consteval WordList<N> word_list(const std::string_view (&words)[N]) {
  return WordList<N>(std::to_array(words));
}

/// Words that mean something else with a capital within a sentence: Polish, polish; the US, us.
inline constexpr auto kOtherWithACapital = word_list(
    {"aids", "august", "bill",   "china", "go",     "ice",     "it",  "job",    "lent", "march",
     "mark", "may",    "mobile", "nice",  "polish", "reading", "sat", "turkey", "us",   "who"});

/// Words that begin a question; after them the question mark is optional.
inline constexpr auto kQuestionOpeners = word_list(
    {"are",       "aren't",  "can",    "can't",  "could",   "couldn't", "did",    "didn't",
     "does",      "doesn't", "has",    "hasn't", "how",     "is",       "isn't",  "should",
     "shouldn't", "was",     "wasn't", "were",   "weren't", "what",     "what's", "where",
     "where's",   "which",   "who",    "whom",   "whose",   "why",      "would",  "wouldn't"});

/// Words that do not distinguish questions. A change of this list changes what stored evidence of
/// similarity is about, and needs a new version of its format (similar_page.cc).
inline constexpr auto kFillers = word_list(
    {"a",       "an",   "any",  "are",    "be",    "can",   "could", "did",   "do",   "does",
     "exactly", "has",  "have", "here",   "is",    "it",    "its",   "me",    "of",   "please",
     "really",  "see",  "so",   "some",   "tell",  "that",  "the",   "there", "this", "to",
     "was",     "were", "what", "what's", "which", "would", "you"});

/// Verbs that begin a request.
inline constexpr auto kRequestOpeners =
    word_list({"compare", "count", "define", "describe", "explain", "find", "give", "identify",
               "list", "name", "show", "tell", "write"});

/// Other first words whose capital carries no meaning. Their sentence may be of any kind.
inline constexpr auto kOtherOpeners =
    word_list({"do", "don't", "have", "haven't", "if", "please", "when"});

/// Words that occur in no other language: a text with one of them is English.
inline constexpr auto kEnglish = word_list(
    {"I",      "about", "because", "been",  "does",  "from",  "how",  "it",    "my",    "of",
     "should", "that",  "the",     "their", "there", "these", "they", "this",  "those", "what",
     "when",   "where", "which",   "who",   "whose", "why",   "with", "would", "you",   "your"});

/// Must not be folded: questions with these words are about text, so every letter may matter.
inline constexpr auto kAboutText =
    word_list({"abbreviation", "acronym",     "adjective",   "adverb",        "alphabet",
               "anagram",      "apostrophe",  "article",     "articles",      "capitalization",
               "capitalize",   "capitalized", "case",        "character",     "characters",
               "clause",       "comma",       "commas",      "compose",       "contraction",
               "contractions", "correct",     "correction",  "decode",        "decrypt",
               "dialect",      "edit",        "encode",      "encrypt",       "exactly",
               "format",       "grammar",     "grammatical", "grammatically", "hyphen",
               "idiom",        "language",    "letter",      "letters",       "literal",
               "literally",    "lowercase",   "match",       "matches",       "mean",
               "misspelled",   "misspelling", "noun",        "operator",      "palindrome",
               "paragraph",    "paraphrase",  "parse",       "pattern",       "phrase",
               "phrases",      "plural",      "pronounce",   "pronounced",    "pronunciation",
               "proofread",    "punctuate",   "punctuation", "quote",         "regex",
               "regexp",       "repeat",      "rephrase",    "reverse",       "rewrite",
               "rhyme",        "rhymes",      "say",         "semicolon",     "sentence",
               "sentences",    "sequence",    "singular",    "spaces",        "spell",
               "spelled",      "spelling",    "string",      "strings",       "summarise",
               "summarize",    "syllable",    "syllables",   "symbol",        "synonym",
               "tense",        "text",        "token",       "tokens",        "transcribe",
               "translate",    "translated",  "translation", "typo",          "uppercase",
               "utter",        "verb",        "verbatim",    "vowel",         "whitespace",
               "wildcard",     "word",        "words",       "written"});

/// Function words: no nouns to fold, and no article belongs to them.
inline constexpr auto kFunctionWords = word_list(
    {"a",       "about",   "above",   "across",  "after",    "again",   "against",  "all",
     "almost",  "along",   "already", "also",    "although", "always",  "am",       "among",
     "an",      "and",     "another", "any",     "are",      "around",  "as",       "ask",
     "at",      "away",    "be",      "because", "become",   "been",    "before",   "behind",
     "being",   "below",   "beneath", "beside",  "besides",  "between", "beyond",   "both",
     "but",     "by",      "can",     "cannot",  "could",    "did",     "do",       "does",
     "doing",   "done",    "down",    "during",  "each",     "eight",   "either",   "else",
     "enough",  "ever",    "every",   "few",     "five",     "for",     "four",     "from",
     "get",     "gets",    "give",    "given",   "gives",    "go",      "goes",     "going",
     "gone",    "got",     "had",     "half",    "has",      "have",    "having",   "he",
     "hence",   "her",     "here",    "hers",    "him",      "his",     "how",      "hundred",
     "i",       "if",      "in",      "inside",  "instead",  "into",    "is",       "it",
     "its",     "itself",  "just",    "least",   "left",     "less",    "let",      "like",
     "little",  "lot",     "made",    "make",    "makes",    "many",    "may",      "me",
     "might",   "million", "mine",    "more",    "most",     "much",    "must",     "my",
     "near",    "need",    "needs",   "neither", "never",    "next",    "nine",     "no",
     "nobody",  "none",    "nor",     "not",     "nothing",  "now",     "of",       "off",
     "often",   "on",      "once",    "one",     "only",     "onto",    "or",       "other",
     "others",  "our",     "ours",    "out",     "outside",  "over",    "own",      "per",
     "perhaps", "please",  "plus",    "rather",  "right",    "same",    "seven",    "several",
     "shall",   "she",     "should",  "since",   "six",      "so",      "some",     "such",
     "ten",     "than",    "that",    "the",     "their",    "theirs",  "them",     "then",
     "there",   "these",   "they",    "this",    "those",    "though",  "thousand", "three",
     "through", "thus",    "till",    "time",    "times",    "to",      "together", "too",
     "toward",  "towards", "twice",   "two",     "under",    "unless",  "unlike",   "until",
     "up",      "upon",    "us",      "versus",  "very",     "via",     "vs",       "was",
     "we",      "were",    "what",    "when",    "where",    "whether", "which",    "while",
     "who",     "whom",    "whose",   "why",     "will",     "with",    "within",   "without",
     "would",   "yes",     "yet",     "you",     "your",     "yours"});

inline constexpr auto kAuxiliaries =
    word_list({"am", "are", "can",   "could", "did",   "do",     "does", "had",  "has",  "have",
               "is", "may", "might", "must",  "shall", "should", "was",  "were", "will", "would"});

/// Superlatives: a missing article before them is a typing mistake.
inline constexpr auto kSuperlatives = word_list(
    {"best",     "biggest",   "cheapest", "closest",  "craziest", "deepest", "easiest",  "fastest",
     "funniest", "greatest",  "hardest",  "heaviest", "highest",  "largest", "latest",   "longest",
     "lowest",   "newest",    "oldest",   "quickest", "richest",  "safest",  "shortest", "simplest",
     "smallest", "strongest", "tallest",  "weirdest", "worst",    "youngest"});

/// Likewise before these nouns, if one of kRelations follows (cost of, difference between).
inline constexpr auto kRelational = word_list(
    {"advantage",    "amount",   "benefit",      "capital",    "cause",        "characteristic",
     "color",        "colour",   "cost",         "definition", "description",  "difference",
     "disadvantage", "distance", "effect",       "example",    "feature",      "formula",
     "function",     "height",   "history",      "impact",     "importance",   "length",
     "meaning",      "name",     "origin",       "population", "price",        "procedure",
     "process",      "purpose",  "reason",       "relation",   "relationship", "role",
     "salary",       "scope",    "significance", "similarity", "size",         "structure",
     "syllabus",     "symptom",  "temperature",  "use",        "value",        "weight",
     "width"});

inline constexpr auto kRelations =
    word_list({"behind", "between", "for", "from", "in", "of", "to"});

/// Must not be folded: before these an article changes the meaning: set phrases (in front of, in
/// the front of; on fire, on the fire), substances (glass, a glass), rates (once a day).
inline constexpr auto kArticleMatters = word_list(
    {"account",    "age",        "aid",         "aim",        "air",           "animal",
     "art",        "average",    "background",  "bar",        "beauty",        "bed",
     "beer",       "behalf",     "being",       "belief",     "board",         "body",
     "book",       "bottom",     "brick",       "business",   "cake",          "care",
     "case",       "cell",       "chance",      "change",     "charge",        "chicken",
     "chocolate",  "church",     "class",       "cloth",      "coal",          "coffee",
     "college",    "command",    "company",     "control",    "copper",        "core",
     "corn",       "cotton",     "couple",      "course",     "court",         "culture",
     "cycle",      "danger",     "day",         "deal",       "death",         "deep",
     "default",    "design",     "development", "dozen",      "drawing",       "duck",
     "earth",      "education",  "egg",         "element",    "end",           "energy",
     "evening",    "evil",       "execution",   "exercise",   "experience",    "experiment",
     "eye",        "fabric",     "fact",        "faith",      "fall",          "family",
     "fashion",    "fear",       "fire",        "first",      "fish",          "flood",
     "floor",      "flow",       "fog",         "food",       "foot",          "force",
     "forest",     "freedom",    "front",       "fruit",      "fuel",          "fun",
     "fur",        "future",     "game",        "garlic",     "gas",           "general",
     "glass",      "god",        "gold",        "good",       "grass",         "ground",
     "growth",     "hair",       "hand",        "heart",      "heat",          "help",
     "high",       "history",    "home",        "hospital",   "hour",          "human",
     "ice",        "idea",       "impression",  "individual", "industry",      "iron",
     "jail",       "job",        "justice",     "kind",       "knowledge",     "lamb",
     "land",       "last",       "law",         "lead",       "leather",       "life",
     "light",      "lightning",  "line",        "liquid",     "living",        "long",
     "look",       "love",       "low",         "lunch",      "machine",       "mail",
     "man",        "marble",     "market",      "mass",       "matter",        "meal",
     "means",      "meat",       "medicine",    "memory",     "metal",         "milk",
     "mind",       "minute",     "moment",      "money",      "month",         "moon",
     "morning",    "motion",     "movement",    "murder",     "music",         "name",
     "nature",     "news",       "night",       "noise",      "number",        "nylon",
     "office",     "oil",        "open",        "opposite",   "order",         "oxygen",
     "page",       "pain",       "paint",       "painting",   "paper",         "part",
     "particular", "past",       "peace",       "people",     "person",        "piece",
     "pipe",       "place",      "plant",       "plastic",    "play",          "pleasure",
     "point",      "pork",       "position",    "possession", "power",         "practice",
     "present",    "president",  "pressure",    "prison",     "private",       "process",
     "property",   "public",     "purpose",     "quarter",    "question",      "race",
     "rain",       "rest",       "rice",        "river",      "road",          "rock",
     "room",       "rope",       "rubber",      "rule",       "salad",         "salt",
     "sand",       "say",        "school",      "science",    "sea",           "season",
     "second",     "sense",      "set",         "sex",        "shape",         "show",
     "side",       "sight",      "sign",        "silk",       "silver",        "single",
     "sky",        "sleep",      "smoke",       "snow",       "society",       "soil",
     "song",       "sort",       "sound",       "soup",       "space",         "speech",
     "spirit",     "sport",      "spot",        "spring",     "stage",         "standing",
     "start",      "state",      "steel",       "step",       "stone",         "stop",
     "street",     "stress",     "string",      "study",      "style",         "substance",
     "success",    "sugar",      "sum",         "summer",     "sun",           "support",
     "surface",    "surprise",   "table",       "talk",       "tape",          "tea",
     "team",       "technology", "television",  "test",       "theory",        "thing",
     "third",      "thought",    "thread",      "throne",     "thunder",       "tie",
     "tin",        "top",        "touch",       "trade",      "traffic",       "train",
     "training",   "treatment",  "tree",        "trial",      "trouble",       "true",
     "truth",      "turkey",     "turn",        "type",       "understanding", "university",
     "variety",    "victim",     "video",       "view",       "virus",         "vision",
     "visit",      "voice",      "war",         "waste",      "watch",         "water",
     "wave",       "way",        "weather",     "week",       "weekend",       "while",
     "whole",      "wind",       "window",      "wine",       "winter",        "wire",
     "wonder",     "wood",       "wool",        "work",       "world",         "worth",
     "writing",    "year",       "youth"});

/// An "a" after these is a name: vitamin a, plan a.
inline constexpr auto kLabelled = word_list(
    {"appendix", "block",   "blood",   "category", "chapter",   "class",     "column", "exhibit",
     "figure",   "gate",    "grade",   "group",    "hepatitis", "influenza", "letter", "level",
     "matrix",   "model",   "omega",   "option",   "part",      "plan",      "point",  "row",
     "section",  "series",  "set",     "side",     "strep",     "team",      "type",   "variable",
     "vector",   "version", "vitamin", "zone"});

/// Must not be folded: after these an article changes the meaning: is that a dog, is that dog; gave
/// her a book, her book; twice a day.
inline constexpr auto kBoundArticles =
    word_list({"all",  "another", "any",   "both",  "each",   "even",  "every", "half", "her",
               "his",  "just",    "less",  "many",  "more",   "most",  "much",  "no",   "once",
               "one",  "only",    "per",   "quite", "rather", "some",  "such",  "that", "these",
               "this", "those",   "times", "twice", "what",   "which", "whose"});

/// Words that mean something else without their s, or are not plurals.
inline constexpr auto kNotPlural = word_list({"accounts",
                                              "afterwards",
                                              "airs",
                                              "always",
                                              "arms",
                                              "arts",
                                              "assets",
                                              "athletics",
                                              "authorities",
                                              "bits",
                                              "bowels",
                                              "brains",
                                              "business",
                                              "chips",
                                              "clothes",
                                              "colors",
                                              "colours",
                                              "communications",
                                              "congratulations",
                                              "contents",
                                              "credits",
                                              "customs",
                                              "damages",
                                              "days",
                                              "degrees",
                                              "drinks",
                                              "dynamics",
                                              "earnings",
                                              "economics",
                                              "electronics",
                                              "ends",
                                              "ethics",
                                              "facilities",
                                              "feelings",
                                              "fireworks",
                                              "forces",
                                              "frames",
                                              "funds",
                                              "games",
                                              "genetics",
                                              "genitals",
                                              "glasses",
                                              "goods",
                                              "graphics",
                                              "grounds",
                                              "guts",
                                              "headquarters",
                                              "heads",
                                              "holidays",
                                              "honors",
                                              "hours",
                                              "humanities",
                                              "hundreds",
                                              "interests",
                                              "irons",
                                              "jeans",
                                              "laws",
                                              "letters",
                                              "lights",
                                              "likes",
                                              "linguistics",
                                              "lives",
                                              "looks",
                                              "manners",
                                              "materials",
                                              "mathematics",
                                              "maths",
                                              "means",
                                              "mechanics",
                                              "media",
                                              "minutes",
                                              "months",
                                              "morals",
                                              "news",
                                              "obsequies",
                                              "odds",
                                              "ones",
                                              "pains",
                                              "pajamas",
                                              "pants",
                                              "papers",
                                              "parts",
                                              "percents",
                                              "physics",
                                              "pictures",
                                              "pieces",
                                              "points",
                                              "politics",
                                              "powers",
                                              "premises",
                                              "proceeds",
                                              "qualities",
                                              "quarters",
                                              "rates",
                                              "regards",
                                              "remains",
                                              "resources",
                                              "returns",
                                              "rights",
                                              "robotics",
                                              "rooms",
                                              "sales",
                                              "sands",
                                              "savings",
                                              "scales",
                                              "scissors",
                                              "seconds",
                                              "securities",
                                              "semantics",
                                              "series",
                                              "sets",
                                              "shades",
                                              "shorts",
                                              "sights",
                                              "sometimes",
                                              "species",
                                              "specs",
                                              "spectacles",
                                              "spirits",
                                              "stairs",
                                              "statics",
                                              "statistics",
                                              "steps",
                                              "stocks",
                                              "stops",
                                              "studies",
                                              "surroundings",
                                              "talks",
                                              "tens",
                                              "terms",
                                              "thanks",
                                              "themselves",
                                              "thermodynamics",
                                              "thousands",
                                              "troops",
                                              "troubles",
                                              "trousers",
                                              "units",
                                              "utilities",
                                              "values",
                                              "vitals",
                                              "wages",
                                              "waters",
                                              "weeks",
                                              "windows",
                                              "wings",
                                              "woods",
                                              "works",
                                              "yards",
                                              "years"});

/// Stative verbs: "how do I look" is not "how can I look".
inline constexpr auto kStates = word_list(
    {"appear", "be",    "come",  "compare", "die",     "differ", "exist",      "feel", "fit",
     "get",    "know",  "look",  "mean",    "measure", "rank",   "rate",       "say",  "score",
     "seem",   "smell", "sound", "stand",   "start",   "tell",   "understand", "vary", "work"});

/// Participles: "what's it done" is has.
inline constexpr auto kDone =
    word_list({"become", "been", "come", "done", "gone", "got", "had", "made", "run", "said"});

/// Words that mean the same with a capital, because no common name consists of them.
inline constexpr auto kOrdinary = word_list(
    {"address",      "algorithm",     "algorithms", "analysis",     "application", "applications",
     "army",         "author",        "battery",    "benefit",      "benefits",    "biology",
     "calculus",     "camera",        "career",     "chemistry",    "college",     "company",
     "computer",     "computers",     "country",    "course",       "courses",     "culture",
     "data",         "database",      "design",     "development",  "difference",  "differences",
     "disadvantage", "disadvantages", "disease",    "district",     "doctor",      "economics",
     "economy",      "education",     "electrical", "electronics",  "employee",    "engine",
     "engineer",     "engineering",   "exam",       "examination",  "fee",         "fees",
     "film",         "finance",       "function",   "goal",         "god",         "government",
     "health",       "hospital",      "human",      "industry",     "information", "insurance",
     "internet",     "interview",     "investment", "job",          "jobs",        "knowledge",
     "learning",     "machine",       "malware",    "management",   "market",      "marketing",
     "mathematics",  "mechanical",    "medicine",   "model",        "movie",       "movies",
     "person",       "phone",         "phones",     "physics",      "player",      "president",
     "problem",      "problems",      "process",    "product",      "products",    "professor",
     "program",      "programming",   "psychology", "question",     "questions",   "relationship",
     "religion",     "research",      "salary",     "school",       "schools",     "scientist",
     "security",     "service",       "services",   "similarities", "society",     "software",
     "solution",     "statistical",   "statistics", "strategy",     "student",     "students",
     "subject",      "subjects",      "system",     "systems",      "teacher",     "technology",
     "test",         "tests",         "training",   "universe",     "university",  "website",
     "websites",     "world"});

/// Verbs of being; an article after them belongs to what is asked for.
inline constexpr auto kBeing = word_list({"are", "is", "was", "were"});

/// "Some" before these is implied.
inline constexpr auto kPraise = word_list(
    {"advantages", "amazing",     "awesome",       "benefits", "causes",    "characteristics",
     "cool",       "differences", "disadvantages", "easy",     "effective", "examples",
     "famous",     "features",    "funny",         "good",     "great",     "ideas",
     "inspiring",  "interesting", "nice",          "popular",  "reasons",   "simple",
     "symptoms",   "tips",        "types",         "useful",   "uses",      "ways"});

}  // namespace afterimage::english
