"""Tests of models behind a threaded HTTP server, with the answers of the plain model."""

import copy
import http.client
import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import pgmo

torch = pytest.importorskip("torch")

REQUESTS, CLIENTS = 1000, 4


def encoder():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    words = torch.nn.Embedding(100, 32)
    return torch.nn.Sequential(words, torch.nn.TransformerEncoder(layer, 2)).eval()


def embed(model, numbers):
    with torch.inference_mode():
        return model(torch.tensor([numbers])).mean(1)[0].tolist()


@contextmanager
def server(answer):
    """Serve `answer` over HTTP as JSON, with a thread for each connection."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(answer(asked)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        try:
            yield serving.server_address
        finally:
            serving.shutdown()
            thread.join()


def ask_all(address, questions):
    """Ask on several connections at once, which are sometimes renewed, and return the answers."""

    def ask(part):
        answers = []
        for at, question in enumerate(part):
            if at % 50 == 0:
                connection = http.client.HTTPConnection(*address, timeout=60)
            connection.request("POST", "/", json.dumps(question))
            answers.append(json.loads(connection.getresponse().read()))
        connection.close()
        return answers

    with ThreadPoolExecutor(CLIENTS) as pool:
        parts = list(pool.map(ask, [questions[one::CLIENTS] for one in range(CLIENTS)]))
    return [parts[at % CLIENTS][at // CLIENTS] for at in range(len(questions))]


@pytest.mark.filterwarnings("ignore:pgmo:UserWarning")
def test_a_thousand_requests_of_any_length():
    chance = random.Random(0)
    questions = [
        [chance.randrange(100) for _ in range(chance.randint(1, 60))] for _ in range(REQUESTS)
    ]
    model = encoder()
    expected = [embed(model, one) for one in questions]
    pgmo.wrap(model)
    with server(lambda question: embed(model, question)) as address:
        answers = ask_all(address, questions)
    session = pgmo.session_of(model)
    history = session.history
    beside = REQUESTS - len(history)
    assert answers == expected
    assert len(history) > REQUESTS // 10
    assert beside >= 0
    assert (beside > 0) == any("several threads" in note for note in session.summary().notes)
    pgmo.unwrap(model)


def check(model, asks, **options):
    """Check that a wrapped model answers as the plain one, and return the session's history."""
    plain = copy.deepcopy(model)
    pgmo.wrap(model, **options)
    with torch.inference_mode():
        for ask in asks:
            torch.manual_seed(1)
            expected = ask(plain)
            torch.manual_seed(1)
            assert torch.equal(ask(model), expected)
    history = pgmo.session_of(model).history
    pgmo.unwrap(model)
    return history


@pytest.mark.filterwarnings("ignore:pgmo:UserWarning")
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("method", ["__call__", "generate"])
def test_generate_of_transformers(sampled, method):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=100,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    model = transformers.LlamaForCausalLM(config).eval()

    def asking(length, answer):
        tokens = torch.randint(3, 100, (2, length))
        options = {"max_new_tokens": answer, "min_new_tokens": answer, "pad_token_id": 0}
        return lambda model: model.generate(tokens, do_sample=sampled, **options)

    lengths = [(5, 6), (9, 3), (5, 6), (7, 5), (9, 8), (6, 6)]
    history = check(model, [asking(*one) for one in lengths], methods=method)
    calls = sum(answer for _, answer in lengths) if method == "__call__" else len(lengths)
    assert len(history) == calls


@pytest.mark.filterwarnings("ignore:pgmo:UserWarning")
def test_a_vision_model():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=32,
        patch_size=8,
    )
    model = transformers.ViTModel(config).eval()

    def asking(count):
        pictures = torch.randn(count, 3, 32, 32)
        return lambda model: model(pictures).pooler_output

    history = check(model, [asking(1 + at % 4) for at in range(32)])
    assert len(history) == 32
    assert any(one.hits for one in history)


def test_models_of_transformers_are_saved_as_what_they_are(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=1
    )
    model = pgmo.wrap(transformers.BertModel(config).eval())
    model.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["architectures"] == ["BertModel"]
    loaded = transformers.BertModel.from_pretrained(tmp_path).eval()
    tokens = torch.arange(8)[None]
    assert torch.equal(loaded(tokens).pooler_output, model(tokens).pooler_output)
    pgmo.unwrap(model)
