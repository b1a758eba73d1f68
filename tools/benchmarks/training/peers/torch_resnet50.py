"""PyTorch: torchvision's ResNet50, channels_last, autocast, fused SGD with momentum."""

import json
import sys
import time

import torch
import torchvision

batch, size, steps, rounds, precision = (*map(int, sys.argv[1:5]), sys.argv[5])
device = "cuda" if torch.cuda.is_available() else "cpu"
kind = {"mixed_bfloat16": torch.bfloat16, "mixed_float16": torch.float16}.get(precision)
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True

model = torchvision.models.resnet50().to(device, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4, fused=True)
scaler = torch.amp.GradScaler(device, enabled=kind is torch.float16)
criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
images = torch.randint(0, 255, (batch, 3, size, size), dtype=torch.uint8, device=device)
images = images.contiguous(memory_format=torch.channels_last)
classes = torch.randint(0, 1000, (batch,), device=device)


def take(count: int) -> float:
    """Take steps and return the seconds that they took."""
    began = time.perf_counter()
    for _ in range(count):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=kind, enabled=kind is not None):
            loss = criterion(model((images.float() / 255 - 0.45) / 0.22), classes)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    loss.item()
    return time.perf_counter() - began


first = take(1)
take(steps)
rates = [steps * batch / take(steps) for _ in range(rounds)]
print(json.dumps({"version": torch.__version__, "first_step": first, "rates": rates}))
