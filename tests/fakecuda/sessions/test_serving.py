"""Memory of models behind a threaded server, with the CUDA build of PyTorch."""

import pgmo
from tests.fakecuda.programs import run_command

SERVER = """
import http.client, json, os, random, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from pgmo.rehearsal import control

wrapped, requests = sys.argv[1] == "wrapped", int(sys.argv[2])
if wrapped:
    import pgmo
    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
torch.backends.cuda.enable_cudnn_sdp(False)
chance = random.Random(0)
with torch.device("cuda"):
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
if wrapped:
    pgmo.wrap(model)

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        batch, length = json.loads(asked)
        with torch.inference_mode():
            shape = model(torch.zeros(batch, length, 256, device="cuda")).mean(1).cpu().shape
        body = json.dumps(list(shape)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

questions = [(chance.randint(1, 16), chance.randint(8, 512)) for _ in range(requests)]

class Server(ThreadingHTTPServer):
    # A thread for each request, after the one before has ended: threads keep their workspaces.

    last = None

    def process_request(self, request, address):
        while self.last is not None and os.path.exists(f"/proc/self/task/{self.last.native_id}"):
            time.sleep(0.0005)
        self.last = threading.Thread(target=self.process_request_thread, args=(request, address))
        self.last.start()

server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever).start()

for batch, length in questions:
    connection = http.client.HTTPConnection(*server.server_address, timeout=120)
    connection.request("POST", "/", json.dumps([batch, length]))
    assert json.loads(connection.getresponse().read()) == [batch, 256]
    connection.close()
server.shutdown()
found = {"peak": control.peak(0)}
if wrapped:
    session = pgmo.session_of(model)
    found |= {"counted": len(session.history), "device": session.device}
print(json.dumps(found))
"""


def serve(folder, *arguments, allocator=""):
    (folder / "server.py").write_text(SERVER)
    return run_command(folder, "server.py", *map(str, arguments), PYTORCH_ALLOC_CONF=allocator)


def test_a_thousand_requests_need_no_more_than_expandable_segments(tmp_path):
    theirs = serve(tmp_path, "plain", 1000, allocator="expandable_segments:True")
    ours = serve(tmp_path, "wrapped", 1000)
    assert ours["device"] == "cuda:0"
    assert ours["counted"] == 1000
    assert ours["peak"] <= theirs["peak"]


def test_a_pipeline_of_diffusers():
    import diffusers
    import torch

    torch.backends.cudnn.enabled = False
    with torch.device("cuda"):
        unet = diffusers.UNet2DModel(
            sample_size=16,
            block_out_channels=(32, 32),
            layers_per_block=1,
            down_block_types=("DownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "UpBlock2D"),
        ).eval()
    pipeline = diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler(num_train_timesteps=10))
    pipeline.set_progress_bar_config(disable=True)
    assert pgmo.wrap(pipeline) is pipeline
    try:
        for _ in range(8):
            pictures = pipeline(batch_size=2, num_inference_steps=3, output_type="np").images
            assert pictures.shape == (2, 16, 16, 3)
        session = pgmo.session_of(pipeline)
        assert session.device == "cuda:0"
        assert len(session.history) == 8
        assert session.phase == "replay"
        assert session.history[-1].hit_bytes_rate > 0.9
    finally:
        pgmo.unwrap(pipeline)
    assert type(pipeline) is diffusers.DDPMPipeline
