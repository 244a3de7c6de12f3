"""Words that the rule-based model knows. Data only."""

from __future__ import annotations

KIN = frozenset(
    {"sister", "brother", "mother", "father", "mom", "mum", "dad", "wife", "husband", "partner"}
    | {"girlfriend", "boyfriend", "fiancé", "fiancée", "son", "daughter", "cousin", "uncle"}
    | {"aunt", "grandmother", "grandfather", "grandma", "grandpa", "nephew", "niece", "friend"}
    | {"neighbour", "neighbor", "roommate", "flatmate", "colleague", "coworker", "boss", "manager"}
    | {"mentor", "teammate", "client", "customer", "landlord", "doctor", "dentist", "therapist"}
    | {"teacher", "professor", "supervisor", "advisor", "intern", "assistant", "co-founder"}
    | {"cofounder", "twin", "stepson", "stepdaughter", "godmother", "godfather", "kid", "child"}
)
MEN = frozenset(
    {"brother", "father", "dad", "husband", "boyfriend", "son", "uncle", "grandfather", "grandpa"}
    | {"nephew", "stepson", "godfather", "fiancé"}
)
WOMEN = frozenset(
    {"sister", "mother", "mom", "mum", "wife", "girlfriend", "daughter", "aunt", "grandmother"}
    | {"grandma", "niece", "stepdaughter", "godmother", "fiancée"}
)
PETS = frozenset({"dog", "cat", "rabbit", "parrot", "hamster", "horse", "puppy", "kitten", "bird"})
ROLES = frozenset(
    {"designer", "developer", "engineer", "programmer", "architect", "analyst", "scientist", "lead"}
    | {"cto", "ceo", "cfo", "coo", "pm", "po", "owner", "founder", "director", "head", "nurse"}
    | {"teacher", "doctor", "lawyer", "accountant", "writer", "editor", "student", "researcher"}
    | {"administrator", "admin", "maintainer", "consultant", "contractor", "freelancer", "intern"}
    | {"tester", "marketer", "recruiter", "translator", "photographer", "illustrator", "chef"}
    | {"carpenter", "electrician", "librarian", "biologist", "chemist", "physicist", "musician"}
    | {"person", "expert", "specialist", "manager", "coordinator", "sre", "dba", "qa", "treasurer"}
    | {"chair", "secretary", "supervisor", "baker", "farmer", "gardener", "pilot", "architect"}
)
ATTRIBUTES = frozenset(
    {"deadline", "budget", "deploy", "deployment", "release", "launch", "standup", "stand-up"}
    | {"database", "repo", "repository", "codename", "name", "logo", "color", "colour", "license"}
    | {"licence", "port", "domain", "url", "version", "owner", "lead", "goal", "motto", "tagline"}
    | {"stack", "backend", "frontend", "language", "framework", "hosting", "host", "provider"}
    | {"meeting", "retro", "demo", "kickoff", "milestone", "priority", "status", "price", "sponsor"}
    | {"client", "customer", "timezone", "time zone", "slogan", "mascot", "branch", "schema"}
    | {"due date", "launch date", "release date", "deploy day", "release day", "target"}
)
BODY = frozenset(
    {"knee", "back", "arm", "leg", "hand", "foot", "head", "eye", "eyes", "ear", "shoulder", "neck"}
    | {"heart", "skin", "tooth", "teeth", "hip", "ankle", "wrist", "stomach", "hair", "blood"}
    | {"age", "height", "weight", "surname", "birthday", "number", "address", "job", "hobby"}
    | {"favourite", "favorite", "dream", "plan", "idea", "question", "problem", "opinion"}
)
"""What belongs to a person so closely that it is not a subject of its own."""
NUMBERS = frozenset(
    {"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"}
    | {"twelve", "fifteen", "twenty", "thirty", "forty", "fifty", "hundred", "thousand"}
)
CATEGORIES: dict[str, frozenset[str]] = {
    "database": frozenset(
        {"postgres", "postgresql", "mysql", "mariadb", "sqlite", "mongodb", "mongo", "redis"}
        | {"dynamodb", "cassandra", "oracle", "cockroachdb", "duckdb", "clickhouse", "firestore"}
        | {"supabase", "couchdb", "neo4j", "mssql"}
    ),
    "language": frozenset(
        {"python", "rust", "go", "golang", "java", "kotlin", "swift", "typescript", "javascript"}
        | {"ruby", "php", "c#", "c++", "scala", "elixir", "haskell", "clojure", "zig", "dart"}
    ),
    "hosting": frozenset(
        {"aws", "gcp", "azure", "heroku", "hetzner", "digitalocean", "vercel", "netlify", "fly.io"}
        | {"render", "cloudflare", "linode", "ovh", "scaleway", "railway"}
    ),
    "framework": frozenset(
        {"react", "vue", "svelte", "angular", "django", "flask", "fastapi", "rails", "laravel"}
        | {"spring", "nextjs", "next.js", "nuxt", "express", "litestar", "solid", "htmx", "phoenix"}
    ),
    "chat tool": frozenset({"slack", "discord", "teams", "mattermost", "zulip", "matrix"}),
    "ci": frozenset({"jenkins", "circleci", "travis", "github actions", "gitlab ci", "buildkite"}),
    "issue tracker": frozenset({"jira", "linear", "trello", "asana", "redmine", "youtrack"}),
    "editor": frozenset({"vim", "neovim", "emacs", "vscode", "zed", "helix", "sublime", "pycharm"}),
}

# Verbs of statements worth keeping: base form and past tense, with the property that they state.
# An empty property: the verb with its preposition is the property.
VERBS: dict[str, tuple[str, str]] = {
    "live": ("lived", ""),
    "move": ("moved", ""),
    "relocate": ("relocated", ""),
    "stay": ("stayed", ""),
    "work": ("worked", ""),
    "join": ("joined", "employer"),
    "leave": ("left", ""),
    "quit": ("quit", ""),
    "start": ("started", ""),
    "finish": ("finished", ""),
    "begin": ("began", ""),
    "lead": ("led", ""),
    "run": ("ran", ""),
    "manage": ("managed", ""),
    "own": ("owned", ""),
    "maintain": ("maintained", ""),
    "handle": ("handled", ""),
    "head": ("headed", ""),
    "coordinate": ("coordinated", ""),
    "review": ("reviewed", ""),
    "teach": ("taught", ""),
    "study": ("studied", "studies"),
    "learn": ("learned", "learns"),
    "speak": ("spoke", "languages"),
    "play": ("played", "plays"),
    "prefer": ("preferred", "preference"),
    "like": ("liked", "likes"),
    "love": ("loved", "likes"),
    "enjoy": ("enjoyed", "likes"),
    "hate": ("hated", "dislikes"),
    "dislike": ("disliked", "dislikes"),
    "avoid": ("avoided", "avoids"),
    "drink": ("drank", "drinks"),
    "eat": ("ate", "diet"),
    "drive": ("drove", "drives"),
    "ride": ("rode", "rides"),
    "use": ("used", "uses"),
    "adopt": ("adopted", ""),
    "keep": ("kept", "keeps"),
    "buy": ("bought", "bought"),
    "sell": ("sold", "sold"),
    "hire": ("hired", "hired"),
    "resign": ("resigned", ""),
    "marry": ("married", "spouse"),
    "meet": ("met", "meetings"),
    "deploy": ("deployed", "deploy day"),
    "release": ("released", "release"),
    "ship": ("shipped", "release"),
    "launch": ("launched", "launch"),
    "host": ("hosted", "hosting"),
    "store": ("stored", "storage"),
    "write": ("wrote", ""),
    "build": ("built", ""),
    "depend": ("depended", ""),
    "support": ("supported", "supports"),
    "require": ("required", "requires"),
    "replace": ("replaced", "replaces"),
    "belong": ("belonged", ""),
    "contain": ("contained", "contains"),
    "listen": ("listened", ""),
    "report": ("reported", ""),
    "cost": ("cost", "cost"),
    "take": ("took", "takes"),
    "happen": ("happened", "schedule"),
    "end": ("ended", "end"),
    "open": ("opened", "opens"),
    "close": ("closed", "closes"),
    "decide": ("decided", "decision"),
    "agree": ("agreed", "decision"),
    "choose": ("chose", "decision"),
    "pick": ("picked", "decision"),
    "select": ("selected", "decision"),
    "settle": ("settled", "decision"),
    "plan": ("planned", "plan"),
    "switch": ("switched", ""),
    "migrate": ("migrated", ""),
    "change": ("changed", ""),
    "rename": ("renamed", "name"),
    "postpone": ("postponed", "schedule"),
    "delay": ("delayed", "schedule"),
    "push": ("pushed", "schedule"),
    "shift": ("shifted", "schedule"),
    "schedule": ("scheduled", "schedule"),
    "drop": ("dropped", "dropped"),
    "retire": ("retired", "retired"),
    "abandon": ("abandoned", "dropped"),
    "stop": ("stopped", "stopped"),
    "turn": ("turned", ""),
    "grow": ("grew", ""),
    "graduate": ("graduated", ""),
    "travel": ("traveled", ""),
    "fly": ("flew", ""),
    "visit": ("visited", "visits"),
    "sponsor": ("sponsored", "sponsors"),
    "fund": ("funded", "funds"),
    "found": ("founded", "founder"),
    "create": ("created", "creator"),
    "design": ("designed", "designer"),
    "organize": ("organized", ""),
    "collect": ("collected", "collects"),
    "serve": ("served", ""),
    "need": ("needed", "needs"),
    "become": ("became", "role"),
    "expect": ("expected", "expects"),
    "name": ("named", "name"),
    "call": ("called", "name"),
    "sit": ("sat", ""),
    "arrive": ("arrived", ""),
    "return": ("returned", ""),
    "publish": ("published", ""),
    "rent": ("rented", ""),
    "wear": ("wore", "wears"),
    "save": ("saved", ""),
    "go": ("went", ""),
    "get": ("got", ""),
    "come": ("came", ""),
    "do": ("did", ""),
    "train": ("trained", ""),
    "volunteer": ("volunteered", ""),
    "swim": ("swam", ""),
    "sing": ("sang", ""),
    "grew": ("grew", ""),
    "measure": ("measured", ""),
    "weigh": ("weighed", ""),
    "bake": ("baked", ""),
    "cook": ("cooked", ""),
    "cover": ("covered", ""),
    "track": ("tracked", ""),
    "assign": ("assigned", ""),
    "promote": ("promoted", ""),
    "award": ("awarded", ""),
    "approve": ("approved", ""),
    "set": ("set", ""),
    "log": ("logged", ""),
    "sync": ("synced", ""),
    "import": ("imported", ""),
    "export": ("exported", ""),
    "expire": ("expired", ""),
    "last": ("lasted", ""),
    "pay": ("paid", ""),
    "earn": ("earned", ""),
    "cut": ("cut", ""),
    "freeze": ("froze", ""),
}
BY_PREPOSITION: dict[tuple[str, str], str] = {
    ("live", "in"): "home city",
    ("live", "at"): "home city",
    ("move", "to"): "home city",
    ("relocate", "to"): "home city",
    ("work", "at"): "employer",
    ("work", "for"): "employer",
    ("work", "as"): "role",
    ("work", "on"): "project",
    ("start", "at"): "employer",
    ("run", "on"): "runs on",
    ("report", "to"): "manager",
    ("switch", "to"): "uses",
    ("migrate", "to"): "uses",
    ("change", "to"): "uses",
    ("go", "with"): "decision",
    ("grow", "up"): "childhood home",
    ("host", "on"): "hosting",
    ("write", "in"): "language",
    ("turn", "into"): "name",
    ("promote", "to"): "role",
    ("take", "over"): "takes over",
}
AGENTS = frozenset(
    {"managed", "led", "run", "maintained", "owned", "handled", "written", "designed", "organized"}
    | {"coordinated", "reviewed", "headed", "taught", "chaired", "hosted", "built", "founded"}
)
"""Participles whose agent has a role: "led by Mira"."""
PREPOSITIONS = frozenset(
    {"in", "at", "to", "for", "as", "on", "with", "from", "by", "into", "up", "off", "about"}
    | {"over", "out", "of", "after", "until", "under"}
)
ADVERBS = frozenset(
    {"now", "still", "also", "just", "recently", "usually", "always", "really", "currently", "only"}
    | {"finally", "officially", "already", "mostly", "actually", "all", "both", "normally", "often"}
    | {
        "longer",
        "never",
        "originally",
        "mainly",
        "primarily",
        "generally",
        "typically",
        "even",
        "then",
    }
)
HUMAN = frozenset(
    {"own", "lead", "manage", "maintain", "handle", "head", "coordinate", "review", "teach"}
    | {"organize", "join", "leave", "quit", "study", "learn", "speak", "play", "prefer", "like"}
    | {"love", "enjoy", "hate", "dislike", "drink", "eat", "drive", "ride", "adopt", "marry"}
    | {"graduate", "volunteer", "sing", "swim", "cook", "bake", "wear", "resign"}
)
"""Verbs of people."""
INNER = frozenset(
    {"want", "wanted", "try", "tried", "ask", "asked", "say", "said", "tell", "told", "see", "saw"}
    | {"look", "looked", "find", "found", "get", "need", "notice", "noticed", "know", "knew"}
    | {"mean", "meant", "understand", "feel", "felt", "seem", "forget", "forgot", "remember"}
    | {"trying", "looking", "asking", "wanting", "needing", "read", "heard", "guess"}
)
"""Verbs that state nothing worth keeping of "I" and "we"."""
WEAK = frozenset(
    {"take", "get", "come", "go", "do", "need", "set", "save", "open", "close", "turn"}
)
"""Verbs that state something only with a name or a number."""
# What makes a clause a wish, a guess or a passing state rather than a fact.
VAGUE = frozenset(
    {"if", "maybe", "perhaps", "might", "could", "would", "should", "wonder", "wondering", "think"}
    | {"guess", "hope", "hoping", "trying", "unless", "assume", "suppose", "imagine", "probably"}
    | {"can", "may", "possibly", "wish", "unsure", "whether", "considering", "thinking"}
)
PASSING = frozenset(
    {"failing", "broken", "error", "errors", "weird", "stuck", "fine", "sure", "sorry", "glad"}
    | {"happy", "confused", "curious", "ready", "done", "great", "good", "nice", "ok", "okay"}
    | {"right", "wrong", "tired", "busy", "here", "back", "working", "trying", "looking", "able"}
    | {"interesting", "helpful", "true", "important", "possible", "going", "getting", "writing"}
    | {"hungry", "late", "excited", "afraid", "thankful", "grateful", "lost", "bored", "it", "this"}
)
LEADS = (
    *("by the way", "btw", "fyi", "for context", "for the record", "just so you know", "turns out"),
    *("note that", "please note that", "remember that", "remember", "please remember that"),
    *("it turns out that", "oh", "ok", "okay", "hi", "hello", "hey", "well", "so", "and", "but"),
    *(
        "also",
        "actually",
        "anyway",
        "yes",
        "yeah",
        "no",
        "right",
        "thanks",
        "thank you",
        "as of now",
    ),
    *("keep in mind that", "one more thing", "sorry", "wait", "great", "perfect", "cool", "nice"),
    *("first", "second", "finally", "then", "to be clear", "in case it helps", "heads up", "plus"),
    *("you should know that", "for reference", "in other news", "i forgot to mention that"),
    *("i forgot to mention", "i should mention that", "as you know", "did i mention that"),
    *("since then", "meanwhile", "because", "since", "although", "though", "that said", "however"),
)
"""Words before a statement that belong to no fact."""
COLON_LEADS = (
    *(
        "update",
        "quick update",
        "small update",
        "note",
        "reminder",
        "good news",
        "fun fact",
        "news",
    ),
    *("background", "context", "decision", "correction", "small correction", "change of plans"),
    *(
        "big news",
        "heads-up",
        "important",
        "today",
        "this week",
        "yesterday",
        "team news",
        "status",
    ),
)
"""The same, when a colon, comma or dash follows."""
QUESTION_STARTS = frozenset(
    {"what", "how", "why", "where", "when", "who", "which", "can", "could", "should", "would", "do"}
    | {"does", "did", "is", "are", "was", "were", "will", "any", "have", "has", "may", "shall"}
    | {"am", "please", "help", "give", "show", "write", "explain", "suggest", "tell", "make", "fix"}
    | {"draft", "summarize", "translate", "let", "let's", "find", "list", "create", "describe"}
    | {"generate", "compare", "review", "check", "rewrite", "whose"}
)
