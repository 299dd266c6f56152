import torch
from torch.nn.functional import mse_loss

model = torch.nn.Linear(500, 500)
step = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for size in (2000, 3000, 4000):
    y = step(torch.ones(size, 500))
    for _ in range(30):
        loss = mse_loss(y, torch.zeros(size, 500))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("done")
