"""Methods of the CUDA adapter that are generated from PyTorch's headers."""

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest

from pgmo.allocator.build.compile import find_compiler
from pgmo.allocator.build.forwarders import forwarders
from pgmo.errors import AdapterError

HERE = Path(__file__).resolve().parents[1]
FAKE_HEADERS = HERE / "cuda_headers"
FRAGMENT = "torch_cuda_forwarders.inc"

ALLOCATOR = """
namespace c10 {
struct Allocator {
  virtual ~Allocator() = default;
  virtual DataPtr allocate(size_t n) = 0;
  DataPtr clone(const void* data, std::size_t n);
  virtual bool is_simple_data_ptr(const DataPtr& data_ptr) const { return &data_ptr != nullptr; }
  virtual DeleterFnPtr raw_deleter() const { return nullptr; }
  virtual void copy_data(void* dest, const void* src, std::size_t count)
      const = 0;
 protected:
  void default_copy_data(void* dest, const void* src, std::size_t count) const;
};
}
"""
DEVICE_ALLOCATOR = """
namespace c10 {
struct DeviceAllocator : public c10::Allocator {
  virtual void emptyCache(MempoolId_t mempool_id = {0, 0}) = 0;
  virtual void recordStream(const DataPtr& ptr, c10::Stream stream) = 0;
  virtual CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) = 0;
  virtual void resetAccumulatedStats(c10::DeviceIndex device) = 0;
  virtual void resetPeakStats(c10::DeviceIndex device) = 0;
  virtual int hidden(long wide) { return static_cast<int>(wide); }
};
}
"""
CUDA_ALLOCATOR = """
namespace c10::cuda::CUDACachingAllocator {
class CUDAAllocator : public DeviceAllocator {
 public:
  virtual void init(int device_count) = 0;
  virtual double getMemoryFraction(c10::DeviceIndex device) = 0;
  virtual void setMemoryFraction(double fraction, c10::DeviceIndex device) = 0;
  virtual void enable(bool value) = 0;
  virtual void enablePeerAccess(c10::DeviceIndex dev, c10::DeviceIndex dev_to_access) = 0;
  virtual void* raw_alloc(size_t nbytes) = 0;
  virtual void* raw_alloc_with_stream(size_t nbytes, cudaStream_t stream) = 0;
  virtual void raw_delete(void* ptr) = 0;
  virtual void* getBaseAllocation(void* ptr, size_t* size) = 0;
  virtual void recordStream(const DataPtr& ptr, CUDAStream stream) = 0;
  void recordStream(const DataPtr& ptr, Stream stream) override { stream.use(ptr); }
  virtual ShareableHandle shareIpcHandle(void* ptr) = 0;
  virtual void beginAllocateToPool(
      c10::DeviceIndex device,
      MempoolId_t mempool_id,
      std::function<bool(cudaStream_t)> filter) = 0;
  virtual void endAllocateToPool(c10::DeviceIndex, MempoolId_t mempool_id) = 0;
  MORE
};
}
"""


@pytest.fixture
def include(tmp_path):
    """Return a function that writes headers of a small PyTorch, with further methods."""

    def write(more="", cuda=CUDA_ALLOCATOR, version="9.9.0"):
        folder = tmp_path / "torch" / "include"
        texts = {
            "c10/cuda/CUDACachingAllocator.h": cuda.replace("MORE", more),
            "c10/core/CachingDeviceAllocator.h": DEVICE_ALLOCATOR,
            "c10/core/Allocator.h": ALLOCATOR,
        }
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        (tmp_path / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
        return folder

    return write


def definitions(text):
    return [line for line in text.splitlines() if not line.startswith(("#", "//"))]


def test_hands_on_what_is_not_written_by_hand(include):
    more = """
      virtual std::string name() = 0;
      virtual bool isEnabled() const = 0;
      virtual int count(c10::DeviceIndex /*device*/, Id /*id*/) { return 0; }
      virtual Snapshot snapshot(Id id = {0, 0}, bool traces = true) = 0;
      virtual void recordHistory(bool enabled, const std::string& left_out) = 0;
      virtual void annotate(const std::string& text, std::string& out) {}
      void fine() {}
    """
    made = definitions(forwarders(include(more)))
    assert made == [
        "std::string name() override { return upstream_->name(); }",
        "bool isEnabled() const override { return upstream_->isEnabled(); }",
        "int count(c10::DeviceIndex argument1, Id argument2) override "
        "{ return upstream_->count(std::move(argument1), std::move(argument2)); }",
        "Snapshot snapshot(Id id, bool traces) override "
        "{ return with_pages(upstream_->snapshot(id, traces), id, traces); }",
        "void recordHistory(bool enabled, const std::string& left_out) override "
        "{ return note_history(enabled, left_out), upstream_->recordHistory(enabled, left_out); }",
        "void annotate(const std::string& text, std::string& out) override "
        "{ return upstream_->annotate(text, out); }",
        "int hidden(long wide) override "
        "{ return static_cast<DeviceAllocator*>(upstream_)->hidden(std::move(wide)); }",
        "bool is_simple_data_ptr(const DataPtr& data_ptr) const override "
        "{ return static_cast<Allocator*>(upstream_)->is_simple_data_ptr(data_ptr); }",
    ]


def test_a_method_that_two_classes_declare_is_defined_once(include):
    made = definitions(forwarders(include("int hidden(long id) override { return 0; }")))
    (once,) = [line for line in made if "hidden" in line]
    assert once == "int hidden(long id) override { return upstream_->hidden(std::move(id)); }"


def test_macros_show_which_hand_written_methods_there_are(include):
    text = forwarders(include("virtual void markCaptureBegin(c10::DeviceIndex /*device*/) {}"))
    macros = set(re.findall(r"#define PGMO_HAS_(\w+) 1", text))
    assert macros == {
        *("allocate", "raw_deleter", "copy_data", "raw_alloc", "raw_alloc_with_stream"),
        *("raw_delete", "recordStream_CUDAStream", "recordStream_c10_Stream"),
        *("getBaseAllocation", "shareIpcHandle", "beginAllocateToPool", "endAllocateToPool"),
        *("init", "enable", "getMemoryFraction", "setMemoryFraction", "enablePeerAccess"),
        *("getDeviceStats", "resetAccumulatedStats", "resetPeakStats", "emptyCache_pool"),
        "markCaptureBegin",
    }
    kept = re.search(r"virtual Caching.*resetPeakStats\(.*?;", DEVICE_ALLOCATOR, re.DOTALL)
    before = CUDA_ALLOCATOR.replace("DeviceAllocator", "Allocator")
    before = before.replace("public:", f"public:\n{kept.group()}")
    before = before.replace(
        "void recordStream(const DataPtr& ptr, Stream stream) override", "void f()"
    )
    older = forwarders(include(cuda=before))
    assert "PGMO_HAS_recordStream_CUDAStream 1" in older
    assert "PGMO_HAS_recordStream_c10_Stream" not in older


@pytest.mark.parametrize(
    ("declaration", "signature"),
    [
        ("virtual void pin(void* ptr) = 0;", "pin(void*)"),
        ("virtual void pin(const at::DataPtr& data) {}", "pin(const DataPtr&)"),
        ("virtual void pin(std::vector<const void*> all) {}", "pin(vector<const void*>)"),
        ("virtual void pin(int a, uintptr_t b) {}", "pin(int, uintptr_t)"),
        ("virtual void pin(size_t base_addr, size_t n) {}", "pin(size_t, size_t)"),
        ("virtual void pin(std::shared_ptr<void> block) {}", "pin(shared_ptr<void>)"),
        ("virtual void pin(c10::Storage storage) {}", "pin(Storage)"),
        # A known name, with a parameter that is an unknown pointer.
        ("virtual void cacheInfo(void* where, size_t* size) {}", "cacheInfo(void*, size_t*)"),
    ],
)
def test_an_unknown_method_that_takes_an_address_is_refused(include, declaration, signature):
    with pytest.raises(AdapterError) as caught:
        forwarders(include(declaration))
    message = str(caught.value)
    assert f"PyTorch 9.9.0 has the allocator method {signature} that this version" in message
    assert "Upgrade pgmo" in message


def test_known_methods_that_take_addresses_and_unknown_ones_that_do_not_are_handed_on(include):
    more = """
      virtual void cacheInfo(c10::DeviceIndex device, size_t* largestBlock) = 0;
      virtual void later(size_t bytes, const std::string& why, std::function<void(int)> f) {}
    """
    made = "\n".join(definitions(forwarders(include(more))))
    assert "upstream_->cacheInfo(" in made
    assert "upstream_->later(std::move(bytes), why, std::move(f))" in made


@pytest.mark.parametrize(
    "declaration",
    [
        "virtual void markCaptureBegin(c10::DeviceIndex device, Id id) {}",
        "virtual DataPtr allocate(size_t n, cudaStream_t stream) = 0;",
    ],
)
def test_a_hand_written_method_with_other_parameters_is_refused(include, declaration):
    with pytest.raises(AdapterError, match="whose parameters this version of pgmo does not know"):
        forwarders(include(declaration))


def test_a_hand_written_method_that_is_gone_is_refused(include):
    cuda = CUDA_ALLOCATOR.replace("virtual void raw_delete(void* ptr) = 0;", "")
    with pytest.raises(AdapterError, match=r"PyTorch 9\.9\.0 has no method raw_delete \(read"):
        forwarders(include(cuda=cuda))


def test_a_declaration_that_cannot_be_read_names_file_version_and_remedy(include):
    folder = include("virtual void f(void (*callback)(int)) = 0;")
    with pytest.raises(AdapterError) as caught:
        forwarders(folder)
    message = str(caught.value)
    assert str(folder / "c10/cuda/CUDACachingAllocator.h") in message
    assert "class CUDAAllocator of PyTorch 9.9.0" in message
    assert "parameter `void(* callback)(int)` is of an unknown form" in message
    assert "Upgrade pgmo, or install" in message


@pytest.mark.parametrize(
    ("old", "new", "missing"),
    [
        ("class CUDAAllocator", "class OtherAllocator", "CUDAAllocator"),
        ("public DeviceAllocator", "public NewBase", "NewBase"),
    ],
)
def test_a_class_that_is_nowhere(include, old, new, missing):
    with pytest.raises(AdapterError, match=rf"no class {missing} of PyTorch 9\.9\.0 in .*Upgrade"):
        forwarders(include(cuda=CUDA_ALLOCATOR.replace(old, new)))


def test_headers_that_are_not_there_or_are_not_text(include, tmp_path):
    with pytest.raises(AdapterError, match=r"cannot read a C\+\+ header of PyTorch of unknown"):
        forwarders(tmp_path / "nowhere")
    folder = include()
    (folder / "c10/core/Allocator.h").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AdapterError, match=r"9\.9\.0, .*Allocator\.h: .*reinstall torch"):
        forwarders(folder)


RUN = """
#include <cstdio>
#include <string>
#include <utility>
struct DataPtr {};
struct Counted {
  int copies = 0;
  Counted() = default;
  Counted(const Counted& other) : copies(other.copies + 1) {}
  Counted(Counted&& other) : copies(other.copies) {}
};
struct Allocator {
  virtual int add(int a, int = 10) = 0;
  virtual int add(long a) { return -1; }
};
struct CUDAAllocator : Allocator {
  virtual std::string name() const = 0;
  virtual void change(std::string& text, const std::string&) {}
  virtual int copies(Counted counted) { return -1; }
  virtual int add(const std::string&) { return -1; }
};
struct Beneath : CUDAAllocator {
  int add(int a, int b) override { return a * 100 + b; }
  int add(long a) override { return static_cast<int>(a) + 7; }
  std::string name() const override { return "beneath"; }
  void change(std::string& text, const std::string& to) override { text = to; }
  int copies(Counted counted) override { return counted.copies; }
  int add(const std::string& text) override { return static_cast<int>(text.size()); }
};
struct Adapter final : CUDAAllocator {
  CUDAAllocator* upstream_;
  explicit Adapter(CUDAAllocator* upstream) : upstream_(upstream) {}
#include "torch_cuda_forwarders.inc"
};
int main() {
  Beneath beneath;
  Adapter adapter(&beneath);
  CUDAAllocator& as_cuda = adapter;
  Allocator& as_base = adapter;
  std::string text;
  as_cuda.change(text, "changed");
  std::printf("%s %s %d ", as_cuda.name().c_str(), text.c_str(), as_cuda.copies(Counted()));
  std::printf("%d %d %d", as_base.add(3), as_base.add(3L), as_cuda.add(std::string("four")));
}
"""


def test_the_methods_do_what_they_say(include, tmp_path, monkeypatch):
    """Every call reaches the allocator beneath, with its arguments in order, moved, not copied."""
    monkeypatch.setattr("pgmo.allocator.build.forwarders._HAND_WRITTEN", {})
    folder = include(cuda=RUN)
    (folder / "c10/core/CachingDeviceAllocator.h").write_text("")
    (folder / "c10/core/Allocator.h").write_text("")
    (tmp_path / FRAGMENT).write_text(forwarders(folder))
    (tmp_path / "run.cpp").write_text(RUN)
    program = tmp_path / "run"
    command = [
        *find_compiler("a test"),
        "-std=c++20",
        str(tmp_path / "run.cpp"),
        "-o",
        str(program),
    ]
    subprocess.run(command, check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert printed == "beneath changed 0 310 10 4"


def installed_torch():
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        pytest.skip("PyTorch is not installed")
    return Path(found.origin).parent / "include"


def installed_cuda():
    """Return the folder of CUDA's headers: of a toolkit, or of Triton."""
    triton = importlib.util.find_spec("triton")
    candidates = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"]
    if triton is not None and triton.origin is not None:
        candidates.append(Path(triton.origin).parent / "backends" / "nvidia" / "include")
    for candidate in candidates:
        if (candidate / "cuda_runtime_api.h").exists() and (candidate / "crt").is_dir():
            return candidate
    return pytest.skip("no CUDA headers are installed")


@pytest.mark.parametrize("cuda", ["declared for the tests", "installed"])
def test_fits_the_installed_torch(tmp_path, cuda):
    """The adapter compiles without warnings, is not abstract, and inherits no method."""
    include = installed_torch()
    (tmp_path / FRAGMENT).write_text(forwarders(include))
    headers = installed_cuda() if cuda == "installed" else FAKE_HEADERS
    compiler = find_compiler("a test")
    command = [
        *(*compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"),
        *("-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE", "-isystem", str(include), "-isystem", str(headers)),
        *("-I", str(tmp_path), str(HERE / "forwarded_adapter.cpp")),
    ]
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True)
    is_gcc = "Free Software Foundation" in version.stdout
    dump = tmp_path / "classes.txt"
    if is_gcc:
        command.append(f"-fdump-lang-class={dump}")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    if is_gcc:
        owners = table_owners(dump.read_text())
        assert len(owners) >= 39  # as many as in PyTorch 2.6
        assert set(owners) == {"{anonymous}::Adapter"}


def table_owners(dump):
    """Return the classes that own the methods in the adapter's virtual table."""
    (table,) = re.findall(r"^Vtable for \{anonymous\}::Adapter\n(.*?)\n\n", dump, re.M | re.S)
    entries = re.findall(r"^\d+\s+(?:\(int \(\*\)\(\.\.\.\)\))?(.+)$", table, re.M)
    methods = entries[2:]  # after an offset and the type information
    return [method.rpartition("::")[0] for method in methods if "::~" not in method]
