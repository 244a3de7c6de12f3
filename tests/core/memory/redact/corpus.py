"""The labelled corpus: lines that hold a secret, and lines that hold none.

Secrets are put together from parts, so that no line of this file is one for a scanner. All of them
are invented; numbers of cards are test numbers, and numbers of telephones are those that
authorities keep for fiction, or have the form of one.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import string
import uuid
from collections.abc import Iterator

_LETTERS = string.ascii_letters + string.digits


def _noise(seed: str, length: int, alphabet: str = _LETTERS) -> str:
    """Return letters that look random and are the same every time."""
    stream = itertools.chain.from_iterable(
        hashlib.sha512(f"{seed}{n}".encode()).digest() for n in itertools.count()
    )
    return "".join(alphabet[next(stream) % len(alphabet)] for _ in range(length))


def _keys() -> Iterator[tuple[str, str]]:
    """Yield secrets of vendors, each with the kind of its placeholder."""
    hexadecimal = "0123456789abcdef"
    upper = string.ascii_uppercase + "234567"
    word = _LETTERS + "_-"
    forms = [
        ("sk-" + "proj-", 120, word, "key"),
        ("sk-" + "", 48, _LETTERS, "key"),
        ("sk-" + "or-v1-", 64, hexadecimal, "key"),
        ("sk-" + "ant-api03-", 93, word, "key"),
        ("hf" + "_", 34, string.ascii_letters, "token"),
        ("ghp" + "_", 36, _LETTERS, "token"),
        ("gho" + "_", 36, _LETTERS, "token"),
        ("github_pat" + "_", 82, _LETTERS, "token"),
        ("glpat" + "-", 20, word, "token"),
        ("xoxb" + "-123456789012-", 40, _LETTERS, "token"),
        ("AKIA" + "", 16, upper, "key"),
        ("AIza" + "", 35, _LETTERS, "key"),
        ("ya29" + ".", 60, word, "token"),
        ("sk_live" + "_", 24, _LETTERS, "key"),
        ("rk_test" + "_", 24, _LETTERS, "key"),
        ("whsec" + "_", 32, _LETTERS, "key"),
        ("npm" + "_", 36, _LETTERS, "token"),
        ("pypi" + "-AgEIcHlwaS5vcmc", 120, word, "token"),
        ("SG" + "." + _noise("sg", 22) + ".", 43, _LETTERS, "key"),
        ("gsk" + "_", 52, _LETTERS, "key"),
        ("dapi" + "", 32, hexadecimal, "token"),
        ("shpat" + "_", 32, hexadecimal, "token"),
        ("dckr_pat" + "_", 27, _LETTERS, "token"),
        ("sntrys" + "_", 80, _LETTERS, "token"),
        ("hvs" + ".", 90, word, "token"),
        ("key" + "-", 32, hexadecimal, "key"),
        ("MT" + _noise("id", 24) + "." + "Gh4xYz.", 38, _LETTERS, "token"),
    ]
    for start, length, alphabet, kind in forms:
        for n in range(2):
            yield start + _noise(f"{start}{n}", length, alphabet), kind
    for n in range(3):
        parts = (_noise(f"jwt{n}{part}", size) for part, size in enumerate((30, 80, 43)))
        yield "eyJ" + ".eyJ".join(parts).replace(".eyJ", ".", 2), "token"


_KEY_PLACES = (
    "{}",
    "export API_KEY={}",
    "Here is my key: {} - please use it.",
    '  "token": "{}",',
    "curl -H 'Authorization: Bearer {}' https://api.example.com/v1",
)
_PASSWORDS = (
    "my password is {}",
    "password: {}",
    "Password: `{}`",
    "passwd={}",
    'PASSWORD="{}"',
    "DB_PASSWORD={}",
    "the passphrase is {}, do not tell anyone",
    "Mein Passwort lautet {}",
    "Kennwort: {}",
    "mot de passe : {}",
    "contraseña: {}",
    "пароль: {}",
    "密码：{}",
    "パスワード：{}",
    "postgres://ada:{}@db.example.com:5432/app",
    "https://ada:{}@git.example.com/repo.git",
    "pwd = '{}'",
    "dbPassword: '{}'",
)
_PASSWORD_VALUES = ("hunter2", "Tr0ub4dor&3", "c0rrect-h0rse", "9f$kQ2_xz", "S3cret.2026")
_MAILS = (
    "ada@example.org",
    "ada.lovelace+notes@mail.example.co.uk",
    "A_D_A@EXAMPLE.COM",
    "x@y-z.museum",
    "1815@example.io",
    "info@münchen-bau.example.de",
    "maría.núñez@example.org",
    "j.o'neil@example.org",
)
_MAIL_PLACES = (
    "Write to {} today.",
    "{}",
    "<{}>",
    "mailto:{}?subject=hi",
    "cc: {};",
    "メールは{}です",
    "git config user.email {}",
    "send('{}')",
)
_CARDS = ("4111111111111111", "5555555555554444", "378282246310005", "6011111111111117",
          "3530111333300000", "30569309025904", "5018637728537364")  # fmt: skip
_IBANS = (
    "DE89370400440532013000",
    "GB82WEST12345698765432",
    "FR1420041010050500013M02606",
    "CH9300762011623852957",
    "NL91ABNA0417164300",
    "ES9121000418450200051332",
)
_PHONES = (
    "+49 170 1234567",
    "+1 415 555 2671",
    "+1 (212) 555-0142",
    "+44 20 7946 0958",
    "+33 1 99 00 12 34",
    "+81-3-1234-5678",
    "+8613912345678",
    "+39 06 1234 5678",
    "0049 30 23125 123",
    "0044 20 7946 0123",
    "+91 98765 43210",
    "+49 (0)30 901820",
    "+61 2 5550 1234",
    "+43.1.5333.1234",
    "+14155550123",
)
_PHONE_PLACES = ("Call {}", "phone: {}.", "({})", "tel:{}", "Mobil {}, abends")


def secrets() -> list[tuple[str, str, str]]:
    """Return lines, each with its secret and the kind of placeholder that is right for it."""
    return [*_with_keys(), *_with_words(), *_with_numbers(), *_with_blocks()]


def _with_keys() -> Iterator[tuple[str, str, str]]:
    for number, (secret, kind) in enumerate(_keys()):
        for place in (_KEY_PLACES[number % 5], _KEY_PLACES[(number + 2) % 5]):
            yield place.format(secret), secret, kind


def _with_words() -> Iterator[tuple[str, str, str]]:
    for number, place in enumerate(_PASSWORDS):
        for value in (_PASSWORD_VALUES[number % 5], _PASSWORD_VALUES[(number + 3) % 5]):
            yield place.format(value), value, "password"
    for place in ("passphrase: {}", 'passphrase="{}" # old', "The pass phrase is '{}'."):
        words = "correct horse battery staple"
        yield place.format(words), words, "password"
    for number, place in enumerate(_MAIL_PLACES):
        for mail in _MAILS[number % 2 :: 2]:
            yield place.format(mail), mail, "e-mail"


def _with_numbers() -> Iterator[tuple[str, str, str]]:
    for card in _CARDS:
        grouped = " ".join(_groups(card))
        yield f"card {card} exp 12/29", card, "card"
        yield f"Card: {grouped}", grouped, "card"
        dashed = grouped.replace(" ", "-")
        yield f"{dashed}, CVC on the back", dashed, "card"
    for iban in _IBANS:
        spaced = " ".join(iban[at : at + 4] for at in range(0, len(iban), 4))
        for each in (iban, spaced, iban.lower()):
            yield f"IBAN {each} please", each, "iban"
    for number, phone in enumerate(_PHONES):
        for place in (_PHONE_PLACES[number % 5], _PHONE_PLACES[(number + 2) % 5]):
            yield place.format(phone), phone, "phone"


def _with_blocks() -> Iterator[tuple[str, str, str]]:
    block = f"-----BEGIN {{}}PRIVATE KEY-----\n{_noise('pem', 64)}\n{_noise('pem2', 40)}==\n"
    for name in ("RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED "):
        body = block.format(name) + f"-----END {name}PRIVATE KEY-----"
        yield f"Key:\n{body}\nThat was it.", body, "private key"
        yield block.format(name).strip(), block.format(name).strip(), "private key"


def _groups(card: str) -> tuple[str, ...]:
    if len(card) == 16:
        return tuple(card[at : at + 4] for at in range(0, 16, 4))
    return (card[:4], card[4:10], card[10:])


_PROSE = """I moved to Lyon on 2026-03-01 and the flat costs 1.250,00 EUR a month.
The password is wrong, says the server.
password: required
Password is too short
Forgot your password?
The password is case-sensitive and at least 8 characters long.
Enter the password: then press return.
My pass is valid until Friday.
A token is about four characters of English.
max_tokens: 4096
tokens per second: 17.8
The secret is to let the dough rest.
The key is under the mat.
primary_key: user_id
cache_key = f"{model}:{revision}"
foreign key (order_id) references orders(id)
API keys are stored in the keychain.
password = os.environ["DB_PASSWORD"]
password = getpass.getpass()
password: str
password: SecretStr = Field(...)
def login(user: str, password: str) -> Token:
token = request.headers.get("Authorization")
token: ${{ secrets.GITHUB_TOKEN }}
api_key=os.getenv("OPENAI_API_KEY")
api_key: <your key here>
export OPENAI_API_KEY=$(pass show openai)
client_secret: {{ vault.secret }}
password: ********
password=xxxx
password = ":****"
"password": "Enter your password",
Passphrase: leave this empty
the passphrase is stored next to it
secret: null
Authorization: Bearer <token>
Bearer tokens are sent in a header.
the bearer of this letter
git clone git@github.com:ada/engine.git
ssh -p 2222 git@git.example.com
npm install @types/node@22.10.1
pip install numpy==2.0.0 mlx>=0.32
uses: actions/checkout@v4
icon@2x.png is missing
import {a} from "@scope/pkg"
@dataclass(frozen=True)
C = A@B.T
x = weights@w.transpose(1, 0)
http://localhost:8080/health
https://example.com:443/a/b?c=d&e=f
https://user@example.com/path
ftp://example.com/pub
redis://cache:6379/0
127.0.0.1:5432
192.168.178.1/24
fe80::1ff:fe23:4567:890a
00:1A:2B:3C:4D:5E
version 1.2.3-beta.4+build.5
v2026.11.30
Python 3.11.9, mlx 0.32.4
ISBN 978-3-16-148410-0
ISBN-10: 0-306-40615-2
ISSN 2049-3630
EAN 4006381333931
DOI 10.1000/182
arXiv:2405.04434v2
RFC 2616, section 14
ticket #4111-2222
order 2026-000123456
invoice 20261130-0042
+1 250 000 000
+12 %
+20 degrees
+49 more
2 + 2 = 4
+0200
2026-03-01T10:00:00+01:00
10:30-11:45
30.11.2026, 17:05 Uhr
01/02/2026
1,234,567.89
1 000 000 000
12'345'678.90
EUR 1.234.567,89
$4,999.00
0.0000001234567890
3.14159265358979
6.02214076e23
-273.15
48.8566, 2.3522
+48.8566 +2.3522
1700000000
1700000000123
1700000000123456
1700000000123456789
123456789012345678
0xdeadbeefcafebabe
0040 4142 4344 4546 4748
0020 00 01 02 03 04 05
1111 2222 3333 4444
1234 5678 9012 3456
4 8 15 16 23 42
SHA-256 is a hash function.
DE is the code of Germany.
GB 12 is not an account.
FR76 was her flight.
AT AT AT
base64: aGVsbG8gd29ybGQ=
lorem ipsum dolor sit amet
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
sk-learn-contrib-hdbscan-0-8-33
sk-estimator-check
task-list-2024-01-01
hf_transfer is a package
xoxo, Ada
AKIA is a prefix of key ids
eyJ is how a JWT begins
ghp_ starts a token
pypi-server listens on 8080
glpat- starts one of GitLab
SG. is Singapore
AIza
npm_config_registry
The PIN is 4 digits.
Passport: renew in 2027
compass: north
bypass: yes
passage: 12 lines
Passau: 50,000 people
password manager: Bitwarden
secretary: Ms. Smith
tokenizer: SentencePiece
keyboard: ISO layout
monkey: 3 of them
token=
password:
key: value
the secret ingredient is cinnamon
Her password is not in the vault.
Das Passwort ist falsch.
Le mot de passe est incorrect.
パスワードを忘れました
密码错误
пароль неверный
"""
_TEMPLATES = (
    "commit {sha1}",
    "sha256:{sha256}",
    "id: {uuid}",
    "{uuid}",
    "index {short}..{short2} 100644",
    "request {uuid} took {n} ms",
    "On {date} I paid {amount} EUR at port {port}.",
    "{date} {time} INFO worker {n}: done in {small} s",
    "listening on 0.0.0.0:{port} (pid {pid})",
    "version {major}.{minor}.{n}",
    "ISBN 978-{isbn}",
    "{date}: {n} km, {small} h, {m} kcal",
    "epoch {epoch}, step {n}/{m}, loss {small}",
    "sizes: {n} {m} {pid} {port}",
    "snowflake {snowflake}",
    "tracking number {tracking}",
    '{{"id": {snowflake}, "at": {epoch}, "hash": "{short}"}}',
    "token count: {n}, key frames: {m}",
    "+{n} -{m} lines in {short}",
    "row {n}: {amount} | {amount2} | {date}",
)


def harmless() -> list[str]:
    """Return lines that hold no secret."""
    return [*_PROSE.splitlines(), *_made()]


def _made() -> Iterator[str]:
    for number in range(1000):
        seed = hashlib.sha512(f"harmless {number}".encode())
        big = int.from_bytes(seed.digest(), "big")
        yield _TEMPLATES[number % len(_TEMPLATES)].format(
            sha1=seed.hexdigest()[:40],
            sha256=seed.hexdigest()[:64],
            short=seed.hexdigest()[40:50],
            short2=seed.hexdigest()[50:60],
            uuid=uuid.UUID(int=big % 2**128),
            date=f"20{big % 30 + 10}-{big // 7 % 12 + 1:02}-{big // 11 % 28 + 1:02}",
            time=f"{big % 24:02}:{big // 3 % 60:02}:{big // 5 % 60:02}",
            amount=f"{big % 10**7:,}.{big % 100:02}",
            amount2=f"{big // 13 % 10**9:,}".replace(",", " "),
            port=big % 64512 + 1024,
            pid=big // 17 % 4_000_000,
            n=big // 19 % 10_000,
            m=big // 23 % 1_000_000,
            small=f"{big % 1000 / 97:.4f}",
            major=big % 20,
            minor=big // 29 % 30,
            isbn=f"{big % 10}-{big // 31 % 10000:04}-{big // 37 % 10000:04}-{big // 41 % 10}",
            epoch=1_600_000_000 + big // 43 % 10**8,
            snowflake=10**17 * (1 + big % 9) + big // 47 % 10**17,
            tracking=f"00340{big // 53 % 10**15:015}",
        )


def hostile(size: int) -> dict[str, str]:
    """Return texts of about `size` characters that slow down what is not linear."""
    units = {
        "letters": "a",
        "at signs": "a@",
        "dots": "a.",
        "mails": "a@b.",
        "keys": "sk-",
        "tokens": "eyJ.",
        "digits": "4",
        "groups": "4111 ",
        "plus": "+",
        "phones": "+49 ",
        "zeros": "00",
        "words": "password ",
        "signs": "password:",
        "spaces": " ",
        "urls": "://a:",
        "blocks": "-----BEGIN PRIVATE KEY-----",
        "dashes": "-",
        "ibans": "DE89 ",
        "quotes": "token='",
        "bearers": "bearer ",
        "underscores": "gh_p",
        "json": json.dumps({"key": "a"}),
        "wide": "密码",
    }
    return {name: unit * (size // len(unit)) for name, unit in units.items()}
